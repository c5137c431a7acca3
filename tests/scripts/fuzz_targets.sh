#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# fuzz.sh runs every target that meson builds: fuzz_targets.sh FUZZ_SH TARGET... TAP.
set -eu
fuzz=$1
shift
expected=$(printf '%s\n' "$@" | sort)
found=$("$fuzz" --list 2>&1 | sort) || true
echo 1..1
if [ "$found" = "$expected" ]; then
	echo 'ok 1 - fuzz.sh runs all targets of tests/fuzz/meson.build'
else
	echo 'not ok 1 - fuzz.sh runs all targets of tests/fuzz/meson.build'
	printf 'expected: %s\nfound: %s\n' "$expected" "$found" | sed 's/^/# /'
	exit 1
fi
