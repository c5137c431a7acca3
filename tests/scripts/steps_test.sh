#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# tools/setup.sh and tools/quickstart.sh show one line and the progress of a long command instead
# of its output, and the output if it fails: steps_test.sh TOOLS. TAP. Installs nothing: apt-get is
# a script of this test.
set -u
tools=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# shellcheck source=tests/tap.sh
. "$(dirname "${BASH_SOURCE[0]}")/../tap.sh"

# Returns 0 if each PATTERN is in FILE; "!PATTERN" must not be.
has() { # FILE PATTERN...
	local file=$1 pattern

	shift
	for pattern; do
		case $pattern in
		!*) ! grep -qE -e "${pattern#!}" "$file" || return 1 ;;
		*) grep -qE -e "$pattern" "$file" || return 1 ;;
		esac
	done
}

# Writes LINES and waits until PATTERN was written to FILE, at most for a minute.
cat >"$work/long" <<'END'
#!/bin/sh
printf "$1"
for i in $(seq 600); do
	grep -q "$2" "$3" && exit 0
	sleep 0.1
done
exit 9
END
mkdir "$work/bin"
cat >"$work/bin/apt-get" <<'END'
#!/bin/sh
if [ "$1" = update ]; then echo 'Hit:1 http://example.org'; exit 0; fi
echo '0 upgraded, 118 newly installed, 0 to remove and 0 not upgraded.'
seq 118 | sed 's/.*/Setting up package& .../'
echo "E: the network is gone" >&2
exit "${APT_STATUS-0}"
END
printf '#!/bin/sh\necho 0.1.0\n' >"$work/bin/meson"
printf '#!/bin/sh\necho 0\n' >"$work/bin/id"
chmod +x "$work/long" "$work/bin/"*

# shellcheck source=tools/steps.sh
. "$tools/steps.sh"

step 'a step' sh -c 'echo hidden; echo hidden >&2' 2>"$work/err"
status=$?
has "$work/err" '^a step \.\.\.$' '^  done, [0-9]+ s$' '!hidden' || status=1
result 'a step that succeeds hides its output' "$status" "$work/err"

status=0
step 'a step' sh -c 'echo the reason >&2; exit 7' 2>"$work/err"
[ $? = 7 ] && has "$work/err" '^the reason$' 'a step: failed with status 7 after [0-9]+ s: sh -c' '!done' ||
	status=1
result 'a step that fails shows its output and its status' "$status" "$work/err"

# shellcheck disable=SC2094 # the command waits for its own progress
{
	export STEP_EVERY=1
	step 'apt' "$work/long" '1 upgraded, 2 newly installed, 0\nGet:1 a\nUnpacking a\nSetting up a\nSetting up b\n' \
		'set up 2 of 3 packages, [0-9]* s' "$work/err" 2>"$work/err"
	result "progress of apt-get" $? "$work/err"
	step 'ninja' "$work/long" '[1/40] CC a\n[17/40] CC b\n' '17 of 40 files' "$work/err" 2>"$work/err"
	result "progress of ninja" $? "$work/err"
	step 'make' "$work/long" '  CC       a.lo\ngcc -O2 -c b.c\n' 'compiled 2 files, [0-9]* s' "$work/err" 2>"$work/err"
	result "progress of make" $? "$work/err"
	step 'other' "$work/long" 'nothing known\n' '  working, [0-9]* s' "$work/err" 2>"$work/err"
	result "a command without known progress" $? "$work/err"
}

cat >"$work/steps" <<END
. "$tools/steps.sh"
step 'on a terminal' "$work/long" '[3/4] CC\n' '3 of 4 files' "$work/err"
END
python3 -c 'import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)' bash "$work/steps" >"$work/err" 2>&1 </dev/null
status=$?
has "$work/err" 'on a terminal \.\.\. done, [0-9]+ s' || status=1
[ "$(wc -l <"$work/err")" -le 2 ] || status=1
result "a terminal has one line that is replaced" "$status" "$work/err"

# meson is too old here, before and after the installation.
printf 'ID=debian\nVERSION_ID=12\n' >"$work/debian"
run_setup() {
	PATH=$work/bin:$PATH "$tools/setup.sh" --os-release "$work/debian" >"$work/err" 2>&1 </dev/null
}
run_setup && status=1 || status=0
has "$work/err" 'lacks .*meson' 'reading the package lists' 'installing the missing packages' \
	'meson:1.0 is still not found' '!Setting up' '!Hit:' && [ "$(wc -l <"$work/err")" -le 12 ] || status=1
result "setup.sh shows its steps and not 118 lines of apt-get" "$status" "$work/err"
for version in 'VERSION_ID=13' '' 'VERSION_ID=11'; do
	printf 'ID=debian\n%s\n' "$version" >"$work/debian"
	run_setup && status=1 || status=0
	case $version in
	*11) has "$work/err" '^setup: this system: nothing is installed; as root, run: apt-get install .* meson$' \
		'!installing the missing packages' || status=1 ;;
	*) has "$work/err" 'installing the missing packages' || status=1 ;;
	esac
	result "setup.sh on Debian ${version:-testing or unstable}" "$status" "$work/err"
done
printf 'ID=debian\nVERSION_ID=12\n' >"$work/debian"
APT_STATUS=100 run_setup && status=1 || status=0
has "$work/err" '^Setting up package118' '^E: the network is gone' \
	'^setup: installing .*: failed with status 100' || status=1
result "setup.sh shows them if apt-get fails" "$status" "$work/err"

# ---- a user who may install nothing, on a system with nothing ----

few=$work/few
mkdir -p "$few" "$work/tree"
for command in bash sh cat chmod cp cut dirname env grep head ls mkdir mktemp printf rm sed sha256sum \
	sort tail tee tr uname wc awk nproc stat date touch; do
	ln -s "$(command -v "$command")" "$few/$command"
done
cp -r "$tools" "$tools/../tests" "$tools/../packaging" "$work/tree" 2>/dev/null
printf '#!/bin/sh\necho 1000\n' >"$few/id"
chmod +x "$few/id"

bare() { # COMMAND...
	status=0
	(cd "$work/tree" && env -i PATH="$few" HOME="$work" "$@") >"$work/err" 2>&1 </dev/null || status=$?
}

sed -i "s,^os_release=/etc/os-release,os_release=$work/debian," "$work/tree/tools/setup.sh"
bare tools/test.sh
[ "$status" = 1 ] && [ "$(grep -c 'apt-get install' "$work/err")" = 1 ] &&
	has "$work/err" '^setup: not root; as root, run: apt-get install -y --no-install-recommends gcc .*meson' \
		'^0 passed, 1 failed$' '!not found' && status=0 || status=1
result 'test.sh: one line to copy, and nothing else is tried' "$status" "$work/err"

bare tools/package.sh wheel
[ "$status" = 1 ] && [ "$(wc -l <"$work/err")" = 1 ] &&
	has "$work/err" '^package: not installed: gcc .*make m4 pkgconf python3.* \(tools/setup.sh --package installs it\)$' \
		'!dpkg' && status=0 || status=1
result 'package.sh wheel names all that it lacks at once' "$status" "$work/err"

bare tools/package.sh source
has "$work/err" '^package: not installed: git gzip ' && status=0 || status=1
result 'package.sh source names what the source archive needs' "$status" "$work/err"

printf 'ID=alpine\nPRETTY_NAME="Alpine Linux v3.20"\n' >"$work/debian"
bare tools/setup.sh --package=source
[ "$status" = 1 ] && grep -qx 'setup: Alpine Linux v3.20: nothing is installed; it lacks what Debian calls: git gzip' \
	"$work/err" && status=0 || status=1
result 'setup.sh elsewhere: one line' "$status" "$work/err"
finish
