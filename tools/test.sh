#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Installs what is missing, builds gpuleak in each way that finds faults, and runs all tests.
# What is absent on this machine counts as a failure; if the set-up fails, that is the failure.
# Last line: "N passed, M failed".
#
#   tools/test.sh [--quick]    --quick leaves out the sanitizers and the fuzzing
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
scripts=$root/tests/scripts
base=$root/build-test

FUZZ_SECONDS=60

quick=
case ${1-} in
'') ;;
--quick) quick=1 ;;
*) sed -n '4,8s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac

export LC_ALL=C

mkdir -p "$base"
results=$base/results   # "PASSED FAILED SKIPPED STAGE" a line
failures=$base/failures # what failed, and what it said
: >"$results"
: >"$failures"

stage() { printf '\n== %s (at %d s) ==\n' "$*" "$SECONDS"; }

# A check that is no meson test counts as one.
check() { # NAME COMMAND...
	local name=$1

	shift
	stage "$name"
	if "$@" </dev/null; then
		echo "1 0 0 $name" >>"$results"
	else
		echo "0 1 0 $name" >>"$results"
		echo "FAILED: $name" | tee -a "$failures"
	fi
}

# The build directory $base/NAME, built anew if its options changed.
build() { # NAME MESON-OPTIONS...
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

# Address space layouts of newer kernels are more than some sanitizers' runtimes can take.
fixed=()
if setarch "$(uname -m)" -R true 2>/dev/null; then
	fixed=(setarch "$(uname -m)" -R)
fi

# The meson tests of a build, counted one by one.
tests() { # STAGE BUILD MESON-TEST-OPTIONS...
	local stage=$1 dir=$base/$2 status=0

	shift 2
	rm -f "$dir/meson-logs/$stage".*
	GPULEAK_MUST_RUN=$must_run "${fixed[@]}" meson test -C "$dir" --logbase "$stage" --print-errorlogs "$@" \
		</dev/null || status=$?
	"$scripts/tally.py" "$status" "$dir/meson-logs/$stage" >"$base/tally" \
		2>"$base/failed" || true
	tee -a "$failures" <"$base/failed"
	sed "s/\$/ $stage/" "$base/tally" >>"$results"
}

# ---- the stages ----

gcc_tests() {
	stage 'gcc: all tests'
	if CC=gcc CXX=g++ build gcc -Dwerror=true && ninja -k0 -C "$base/gcc"; then
		tests gcc gcc --no-rebuild
	else
		echo '0 1 0 gcc: the build' >>"$results"
	fi
}

clang_tests() {
	stage 'clang: unit, programs, routes'
	if CC=clang CXX=clang++ build clang -Dwerror=true && ninja -k0 -C "$base/clang"; then
		tests clang clang --no-rebuild --suite unit --suite fuzz --suite programs --suite routes
	else
		echo '0 1 0 clang: the build' >>"$results"
	fi
}

asan_targets() {
	# shellcheck disable=SC2046 # a list of words
	CC=gcc CXX=g++ build asan -Db_sanitize=address,undefined -Db_lundef=false \
		-Dc_args=-fno-sanitize-recover=all "-Dc_link_args=$base/asan_defaults.o" &&
		ninja -C "$base/asan" tools/gpuleak $("$scripts/targets.py" "$base/asan" unit fuzz)
}

# The command that the programs' tests run is the sanitized one; the programs and the library
# inside them stay as they are, as in a user's process.
programs_with_sanitized_command() {
	local command=$base/gcc/tools/gpuleak

	mv "$command" "$command.plain"
	cp "$base/asan/tools/gpuleak" "$command"
	tests asan-command gcc --no-rebuild --suite programs --suite routes
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
	stage 'ASan and UBSan: unit tests; the command in the programs'\'' tests'
	rm -rf "$base/findings"
	mkdir "$base/findings"
	# The defaults are compiled in: tests clear the environment.
	if gcc -c "-DLOG_PATH=\"$base/findings/asan\"" "$scripts/asan_defaults.c" \
		-o "$base/asan_defaults.o" && asan_targets; then
		tests asan asan --no-rebuild --suite unit --suite fuzz
		programs_with_sanitized_command
	else
		echo '0 1 0 asan: the build' >>"$results"
	fi

	stage 'TSan: unit tests with threads'
	# shellcheck disable=SC2046 # a list of words
	if CC=gcc CXX=g++ build tsan -Db_sanitize=thread -Db_lundef=false &&
		ninja -C "$base/tsan" $("$scripts/targets.py" "$base/tsan" threaded); then
		tests tsan tsan --no-rebuild --suite threaded
	else
		echo '0 1 0 tsan: the build' >>"$results"
	fi
}

# Where the set-up fails, the set-up is what failed: what is absent then is skipped.
must_run=1
if ! tools/setup.sh --tests; then
	must_run=
	echo '0 1 0 setup' >>"$results"
	echo 'FAILED: tools/setup.sh --tests' >>"$failures"
fi
# A run that was killed may have left the sanitized command where the plain one belongs.
rm -f "$base/gcc/tools/gpuleak" "$base/gcc/tools/gpuleak.plain"

gcc_tests
clang_tests
check 'meson install' "$scripts/install.sh" "$base/gcc"
check 'commands in README.md' "$scripts/readme_commands.sh"
if [ ! "$quick" ]; then
	sanitizer_tests
	check "fuzzing, $FUZZ_SECONDS s each" "${fixed[@]}" "$scripts/fuzz.sh" "$FUZZ_SECONDS" "$base/fuzz"
fi

# ---- the sum ----

if [ -s "$failures" ]; then
	stage 'what failed'
	cat "$failures"
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
