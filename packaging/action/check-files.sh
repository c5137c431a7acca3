#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Checks files that a gate reads, for .pre-commit-hooks.yaml: check-files.sh OPTION FILE...
# OPTION is the option of `gpuleak run` that reads them. The command reads each file, starts a
# program that makes no GPU call, and ends with 24. Any other status fails the hook.
set -eu
option=$1
shift
command -v gpuleak >/dev/null || {
	echo 'gpuleak is not in PATH: install its wheel to check its files' >&2
	exit 1
}
failed=0
for file; do
	status=0
	said=$(env -u GPULEAK_REPORT gpuleak run --gate "$option=$file" -- true 2>&1) || status=$?
	[ "$status" != 24 ] || continue
	printf '%s\n' "${said:-$file: gpuleak ended with status $status}" >&2
	failed=1
done
exit "$failed"
