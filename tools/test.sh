#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Installs what is missing, builds gpuleak in each way that finds faults, and runs all tests.
# A missing tool counts as a failure; if the set-up itself fails, only that counts as one.
# Last line: "N passed, M failed".
#
#   tools/test.sh [--quick | --long]
#     --quick leaves out the sanitizers and the fuzzing
#     --long also runs what repeats the same code: every program and route with clang and with the
#     sanitized command, OpenCL's pool in its other mode, the README in a fresh build, clang-tidy,
#     more fuzzing, Intel's CPU runtime for OpenCL (225 MB from PyPI), an emulated aarch64 machine and
#     an hour of torture (some hours in all)
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
scripts=$root/tests/scripts
base=$root/build-test

# Seconds that the fuzz targets and the torture run. All fuzz targets run at the same time.
FUZZ_SECONDS=30
FUZZ_SECONDS_LONG=1200
TORTURE_SECONDS_LONG=3600

quick='' long=''
case ${1-} in
'') ;;
--quick) quick=1 ;;
--long) long=1 ;;
*) sed -n '4,14s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac

export LC_ALL=C

mkdir -p "$base"
results=$base/results   # "PASSED FAILED SKIPPED STAGE" a line
failures=$base/failures # what failed, with its output
skips=$base/skips       # what was skipped, with the reason
: >"$skips"
: >"$results"
: >"$failures"

stage() { printf '\n== %s (at %d s) ==\n' "$*" "$SECONDS"; }

skipped() { # NAME REASON
	echo "0 0 1 $1" >>"$results"
	printf 'SKIPPED: %s: %s\n' "$1" "$2" >>"$skips"
}

# A check that is no meson test counts as one.
check() { # NAME COMMAND...
	local name=$1

	shift
	stage "$name"
	if "$@" </dev/null 9<&-; then
		echo "1 0 0 $name" >>"$results"
	else
		echo "0 1 0 $name" >>"$results"
		echo "FAILED: $name" | tee -a "$failures"
	fi
}

# The build directory $base/NAME, set up anew if its options changed.
setup() { # NAME MESON-OPTIONS...
	local dir=$base/$1

	shift
	if [ "$(cat "$dir/.options" 2>/dev/null)" != "$*" ]; then
		rm -rf "$dir"
	fi
	if [ ! -e "$dir/build.ninja" ]; then
		meson setup "$dir" "$root" "$@" || return 1
		printf '%s\n' "$*" >"$dir/.options"
	fi
}

# What the tests of some suites run. Prints nothing for a build that is not set up.
targets() { # NAME SUITE...
	"$scripts/targets.py" "$base/$1" "${@:2}"
}

# Address space layouts of newer kernels are more than some sanitizers' runtimes can take.
fixed=()
if setarch "$(uname -m)" -R true 2>/dev/null; then
	fixed=(setarch "$(uname -m)" -R)
fi

# The meson tests of a build, counted one by one. One more at a time than there are processors:
# a quarter of their time is spent waiting.
tests() { # STAGE BUILD MESON-TEST-OPTIONS...
	local stage=$1 dir=$base/$2 status=0

	shift 2
	rm -f "$dir/meson-logs/$stage".*
	GPULEAK_MUST_RUN=$must_run "${fixed[@]}" meson test -C "$dir" --logbase "$stage" --print-errorlogs \
		--timeout-multiplier 3 --no-rebuild --num-processes $(($(nproc) + 1)) "$@" </dev/null 9<&- || status=$?
	"$scripts/tally.py" "$status" "$dir/meson-logs/$stage" "$skips" \
		>"$base/tally" 2>"$base/failed" || true
	tee -a "$failures" <"$base/failed"
	sed "s/\$/ $stage/" "$base/tally" >>"$results"
}

# ---- the stages ----

# The README's commands build the whole of the gcc stage, the quickstart's part of it first.
readme_builds_gcc() {
	if [ "$long" ]; then
		check 'commands in README.md and install.md, in a build of their own' "$scripts/readme_commands.sh"
	fi
	if CC=gcc CXX=g++ setup gcc -Dwerror=true; then
		check 'commands in README.md and install.md' "$scripts/readme_commands.sh" --build "$base/gcc"
	fi
}

gcc_tests() {
	stage 'gcc: all tests'
	if ninja -k0 -C "$base/gcc" all tests; then
		tests gcc gcc --no-suite smoke
	else
		echo '0 1 0 gcc: the build' >>"$results"
	fi
	check 'meson install' env GPULEAK_MUST_RUN=$must_run "$scripts/install.sh" "$base/gcc"
}

# ---- builds ----

# clang makes other code of the library, and so other stacks through it. The command's reports on a
# ledger are the same, so their tests are not repeated.
clang_suites=(unit fuzz smoke codegen)
[ ! "$long" ] || clang_suites+=(programs routes)

build_clang() {
	# shellcheck disable=SC2046 # a list of words
	CC=clang CXX=clang++ setup clang -Dwerror=true &&
		ninja -k0 -C "$base/clang" $(targets clang "${clang_suites[@]}")
}

# The defaults are compiled in: tests clear the environment. A report needs lines only: -g1.
build_asan() {
	# shellcheck disable=SC2046 # a list of words
	gcc -c "-DLOG_PATH=\"$base/findings/asan\"" "$scripts/asan_defaults.c" \
		-o "$base/asan_defaults.o" &&
		CC=gcc CXX=g++ setup asan -Db_sanitize=address,undefined -Db_lundef=false \
			-Doptimization=1 '-Dc_args=-fno-sanitize-recover=all -g1' \
			"-Dc_link_args=$base/asan_defaults.o" &&
		ninja -C "$base/asan" tools/gpuleak $(targets asan unit fuzz)
}

build_tsan() {
	# shellcheck disable=SC2046 # a list of words
	CC=gcc CXX=g++ setup tsan -Db_sanitize=thread -Db_lundef=false -Doptimization=1 \
		-Dc_args=-g1 && ninja -C "$base/tsan" $(targets tsan threaded)
}

build_fuzz() {
	"$scripts/fuzz.sh" --build "$base/fuzz"
}

# Tests wait for a part of their time, and a build has one long step at its end. The builds of the
# later stages use these gaps, in the order of the stages and at the lowest priority.
build_ahead() { # NAME...
	exec 9< <(
		exec 9<&-
		renice -n 19 -p "$BASHPID" >/dev/null
		for name; do
			"build_$name" </dev/null >"$base/ahead-$name.log" 2>&1 || true
			echo "$name"
		done
	)
	ahead=$!
	trap 'kill "$ahead" 2>/dev/null || true' EXIT
}

# The build NAME, after its turn among those that are built ahead: that has left little to do, or
# has failed, and fails again here.
build() { # NAME
	read -r -u 9 _ || true
	"build_$1" 9<&-
}

# ---- tests of a build ----

clang_tests() {
	stage "clang: ${clang_suites[*]}"
	if build clang; then
		tests clang clang "${clang_suites[@]/#/--suite=}"
	else
		echo '0 1 0 clang: the build' >>"$results"
	fi
}

# The command that the tests run is the sanitized one; the programs and the library inside them
# stay as they are, as in a user's process.
tests_with_sanitized_command() { # SUITE...
	local command=$base/gcc/tools/gpuleak

	mv "$command" "$command.plain"
	cp "$base/asan/tools/gpuleak" "$command"
	tests asan-command gcc "${@/#/--suite=}"
	mv "$command.plain" "$command"
	check 'ASan and UBSan found nothing in the command' no_findings
}

no_findings() {
	local finding status=0

	for finding in "$base"/findings/*; do
		[ -e "$finding" ] || continue
		cat "$finding"
		status=1
	done
	return "$status"
}

sanitizer_tests() {
	local suites=(smoke command)

	[ ! "$long" ] || suites=(programs routes formats html)
	stage 'ASan and UBSan: unit tests; the command in the programs'\'' tests'
	rm -rf "$base/findings"
	mkdir "$base/findings"
	if build asan; then
		tests asan asan --suite unit --suite fuzz
		tests_with_sanitized_command "${suites[@]}"
	else
		echo '0 1 0 asan: the build' >>"$results"
	fi

	stage 'TSan: unit tests with threads'
	if build tsan; then
		tests tsan tsan --suite threaded
	else
		echo '0 1 0 tsan: the build' >>"$results"
	fi
}

fuzzing() {
	local seconds=$FUZZ_SECONDS

	[ ! "$long" ] || seconds=$FUZZ_SECONDS_LONG
	build fuzz || true # fuzz.sh builds again, and fails then
	check "fuzzing, $seconds s" "${fixed[@]}" "$scripts/fuzz.sh" "$seconds" "$base/fuzz"
}

# Strict and fast run the same code in OpenCL's pool. If that changes, this stage tests both.
opencl_strict_tests() {
	stage "OpenCL's pool in strict mode"
	GPULEAK_POOL=strict tests opencl-strict gcc programs-opencl programs-cl-history programs-cl-mapped \
		programs-cl-objects programs-cl-released
}

# The same without --long, on a new installation of each Debian.
fresh_debians() {
	local suite name

	for suite in bookworm trixie sid; do
		name="all tests in a fresh Debian, $suite"
		if [ "$(id -u)" = 0 ] && command -v debootstrap >/dev/null; then
			check "$name" "$scripts/fresh-debian.sh" "$suite"
		else
			skipped "$name" 'needs root and debootstrap'
		fi
	done
}

# Lets each allocation of the command fail once, not only every 37th.
short_memory_tests() {
	stage 'each allocation of the command fails'
	GPULEAK_TEST_EVERY=1 tests short-memory gcc --timeout-multiplier 60 programs-short-memory
}

# 1,000 attachments instead of a few: beside threads with each compiler, and by the command.
attach_tests() {
	local family build=$base/gcc

	for family in 'attached beside' 'attach again'; do
		check "1,000 attachments: $family" env TEST_ROUNDS=1000 tests/programs/run.py "${family% *}" \
			--only "${family#* }" --preload "$build/interpose/libgpuleak.so" \
			--command "$build/tools/gpuleak" --standin "$build/standin/driver" \
			--programs "$build/tests/programs"
	done
}

# On a machine that the script cannot set up, this is skipped.
aarch64_tests() {
	local name='aarch64: suites on an emulated machine'

	if [ "$(id -u)" = 0 ] && [ "$(uname -m)" = x86_64 ] && grep -q bookworm /etc/os-release; then
		check "$name" "$scripts/aarch64.sh"
	else
		skipped "$name" 'needs root on an x86-64 Debian 12'
	fi
}

all_stages() {
	# A run that was killed may have left the sanitized command where the plain one belongs.
	rm -f "$base/gcc/tools/gpuleak" "$base/gcc/tools/gpuleak.plain"

	if [ "$quick" ]; then build_ahead clang; else build_ahead clang asan tsan fuzz; fi
	readme_builds_gcc
	gcc_tests
	clang_tests
	[ "$quick" ] || sanitizer_tests
	[ "$quick" ] || fuzzing
	[ "$long" ] || return 0
	check "OSS-Fuzz's build" tests/fuzz/oss-fuzz/local.sh "$base/oss-fuzz"
	check 'clang-tidy' "$scripts/tidy.sh" "$base/clang"
	opencl_strict_tests
	check "the end of Intel's CPU runtime for OpenCL" tests/opencl/intel.sh "$base/gcc"
	short_memory_tests
	attach_tests
	aarch64_tests
	fresh_debians
	check "torture, $TORTURE_SECONDS_LONG s" tests/torture/hour.sh "$base/gcc" "$TORTURE_SECONDS_LONG"
}

# If the set-up failed, it counts as the only failure: tests that lack a tool are skipped. Without
# the packages of the build nothing can run.
must_run=1
if ! tools/setup.sh --tests; then
	must_run=
	echo '0 1 0 setup' >>"$results"
	echo 'FAILED: tools/setup.sh --tests' >>"$failures"
fi
if [ "$must_run" ] || [ -z "$(tools/setup.sh --demo --missing)" ]; then
	# A shim of pyenv is a shell script that needs 60 ms more than the interpreter that it starts.
	case $(command -v python3) in
	*/shims/*) PATH=$(python3 -c 'import os, sys; print(os.path.dirname(sys.executable))'):$PATH ;;
	esac
	all_stages
fi

# ---- the sum ----

if [ -s "$failures" ]; then
	stage 'what failed'
	cat "$failures"
fi
if [ -s "$skips" ]; then
	stage 'what was skipped, and why'
	cat "$skips"
fi
stage 'results: passed, failed, skipped'
passed=0 failed=0 skipped=0
while read -r p f s name; do
	printf '%6d %6d %6d  %s\n' "$p" "$f" "$s" "$name"
	passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
done <"$results"
echo
line="$passed passed, $failed failed"
[ "$skipped" = 0 ] || line="$line, $skipped skipped"
echo "$line"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
