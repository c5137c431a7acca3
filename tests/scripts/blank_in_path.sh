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

# Of an earlier run, with the umask of its user.
links=/tmp/gpuleak-preload-$(id -u)
[ ! -d "$links" ] || chmod 700 "$links"

preloaded() { # the value of LD_PRELOAD in a program that TREE's command starts
	# shellcheck disable=SC2016
	"$tree/tools/gpuleak" run -- sh -c 'echo "$LD_PRELOAD"' 2>/dev/null
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
	check "$name: a link that is removed while a program runs is made again" \
		gate "$tree/tools/gpuleak" run --gate -- sh -c '
			rm "${LD_PRELOAD%/*}"
			turns=600
			while [ ! -e "$LD_PRELOAD" ] && [ $turns -gt 0 ]; do
				sleep 0.1
				turns=$((turns - 1))
			done
			"$0"; true' "$program"

	preload=$(preloaded)
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

	mkdir -p "$work/other"
	cp "$build/interpose/libgpuleak.so" "$work/other"
	ln -sfn "$work/other" "$(dirname "$preload")"
	check "$name: a link that leads elsewhere is replaced" \
		test "$(preloaded)" -ef "$tree/interpose/libgpuleak.so"
	if [ "$(dirname "$(dirname "$preload")")" = "$links" ]; then
		chmod 775 "$links"
		other=$(preloaded) || true
		chmod 755 "$links"
		echo "$other" >"$work/out"
		check "$name: a folder that others can change is not used" \
			grep -qE '^/(var/tmp|dev/shm)/gpuleak-preload-' "$work/out"
		check "$name: another one leads to the library" \
			test "$other" -ef "$tree/interpose/libgpuleak.so"
		[ -z "$other" ] || rm -f "$(dirname "$other")"
	fi
	rm -f "$(dirname "$preload")"
done

cp "$build/interpose/libgpuleak.so" "$work/a b.so"
named() {
	! GPULEAK_LIBRARY="$work/a b.so" "$build/tools/gpuleak" run -- true >"$work/out" 2>&1 &&
		grep -q 'a b\.so: LD_PRELOAD cannot contain a file name with a blank' "$work/out"
}
check 'the name of the library has a blank: the message names it' named
echo "1..$number"
exit "$failed"
