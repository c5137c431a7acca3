#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# tools/setup.sh chooses package names by the distribution: setup_names.sh SETUP. TAP.
set -eu
setup=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
number=0 failed=0

is() { # NAME EXPECTED FOUND
	number=$((number + 1))
	if [ "$2" = "$3" ]; then
		echo "ok $number - $1"
	else
		echo "not ok $number - $1"
		printf '# expected: %s\n# found:    %s\n' "$2" "$3"
		failed=1
	fi
}

# The packages whose names differ, as FILE, an os-release, has them.
differing() {
	"$setup" --list --tests --os-release "$1" | grep -E 'clang-rt|tcmalloc|chromium' | tr '\n' ' '
}

printf 'NAME="Debian GNU/Linux"\nVERSION_ID="12"\nVERSION_CODENAME=bookworm\nID=debian\n' >"$work/debian"
printf 'PRETTY_NAME="Ubuntu 24.04.1 LTS"\nVERSION_ID="24.04"\nID=ubuntu\nID_LIKE=debian\n' >"$work/ubuntu"
printf 'ID=alpine\nVERSION_ID=3.20.0\n' >"$work/other"

is 'Debian 12' 'libclang-rt-14-dev libtcmalloc-minimal4 chromium ' "$(differing "$work/debian")"
printf 'ID=debian\nVERSION_ID="13"\n' >"$work/trixie"
printf 'PRETTY_NAME="Debian GNU/Linux forky/sid"\nID=debian\n' >"$work/sid"
is 'Debian 13' 'libclang-rt-dev libtcmalloc-minimal4t64 chromium ' "$(differing "$work/trixie")"
is 'Debian testing and unstable' 'libclang-rt-dev libtcmalloc-minimal4t64 chromium ' "$(differing "$work/sid")"
is 'Ubuntu 24.04' 'libclang-rt-18-dev libtcmalloc-minimal4t64 ' "$(differing "$work/ubuntu")"
is 'no name of its own elsewhere' 'libclang-rt-dev libtcmalloc-minimal4 chromium ' "$(differing "$work/other")"
is 'no os-release at all' 'libclang-rt-dev libtcmalloc-minimal4 chromium ' "$(differing "$work/none")"
is 'the build alone needs no test package' '' \
	"$("$setup" --list --os-release "$work/debian" | grep -E 'cmocka|clang|pocl|git' || true)"
docs=$(dirname "$setup")/../docs
is 'the tests get each program and header that the languages of the guides need' '' "$(
	sed -n 's/^```console with \(.*\)/\1/p' "$docs"/guides/*.md "$docs"/guides/*/*.md | tr ' ' '\n' | sort -u |
		while read -r what; do
			[ "$what" = opencl ] || grep -qE "^[a-z]+ +(program|header):$what " "$setup" || echo "$what"
		done)"
is 'a wrong option ends with failure' 1 \
	"$("$setup" --nonsense >/dev/null 2>&1 && echo 0 || echo 1)"
echo "1..$number"
exit "$failed"
