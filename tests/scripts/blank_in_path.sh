#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# gpuleak at a path that LD_PRELOAD cannot contain: blank_in_path.sh BUILD. TAP.
set -eu
build=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
number=0 failed=0
export LD_LIBRARY_PATH=$build/standin/driver
program=$build/tests/programs/p_cuda_wrong_frees

check() { # NAME CONDITION...
	number=$((number + 1))
	if "${@:2}"; then
		echo "ok $number - $1"
	else
		echo "not ok $number - $1"
		sed 's/^/# /' "$work/out"
		failed=1
	fi
}

gate() { # COMMAND...
	local status=0

	"$@" >"$work/out" 2>&1 || status=$?
	[ "$status" = 23 ] && grep -q 'cuda_wrong_frees\.c:[0-9]' "$work/out"
}

for name in 'with blank' 'with:colon'; do
	tree=$work/$name
	mkdir -p "$tree/interpose" "$tree/tools"
	cp "$build/interpose/libgpuleak.so" "$tree/interpose"
	cp "$build/tools/gpuleak" "$tree/tools"

	check "$name: a program is recorded" gate "$tree/tools/gpuleak" run --gate -- "$program"
	# shellcheck disable=SC2016 # for the inner shells
	check "$name: so are its children" gate "$tree/tools/gpuleak" run --gate -- \
		sh -c 'sh -c "$0; true"; exit 0' "$program"

	# shellcheck disable=SC2016
	preload=$("$tree/tools/gpuleak" run -- sh -c 'echo "$LD_PRELOAD"' 2>/dev/null)
	echo "$preload" >"$work/out"
	check "$name: LD_PRELOAD has one path without blank or colon" \
		grep -qxE '/[^ :]+/libgpuleak\.so' "$work/out"
	check "$name: it leads to the library" test "$preload" -ef "$tree/interpose/libgpuleak.so"

	# The fallback report has no lines.
	LD_PRELOAD=$preload "$program" >"$work/out" 2>&1
	check "$name: the library finds the command" grep -q 'cuda_wrong_frees\.c:[0-9]' "$work/out"
	# Another user of the traced program's choice must be able to follow the link.
	check "$name: others may read the link's folder" \
		test "$(stat -c %a "$(dirname "$(dirname "$preload")")")" = 755
	rm -f "$(dirname "$preload")"
done
echo "1..$number"
exit "$failed"
