#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Builds the fuzz targets with clang's libFuzzer, ASan and UBSan, and runs all of them at
# once, each for some seconds, from the corpora in tests/fuzz. What makes one fail is kept
# in BUILD/findings-TARGET.
#
# Each tests/fuzz/fuzz_TARGET.c is one target. --list prints their names.
#
#   tests/scripts/fuzz.sh SECONDS BUILD | --build BUILD | --list      --build only builds
set -eu
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
targets=$(cd "$root/tests/fuzz" && printf '%s\n' fuzz_*.c | sed 's/^fuzz_\(.*\)\.c$/\1/')
if [ "$*" = --list ]; then
	printf '%s\n' "$targets"
	exit 0
fi
seconds=$1
build=$2

if [ ! -e "$build/build.ninja" ]; then
	CC=clang CXX=clang++ meson setup "$build" "$root" -Dfuzz=true \
		-Db_sanitize=address,undefined -Db_lundef=false \
		"-Dc_args=-fsanitize=fuzzer-no-link -fno-sanitize-recover=all -gline-tables-only"
fi
# shellcheck disable=SC2046,SC2086 # a list of words
ninja -C "$build" $(printf 'tests/fuzz/fuzz-%s ' $targets)
[ "$seconds" != --build ] || exit 0

run_target() { # TARGET
	mkdir -p "$build/corpus-$1" "$build/findings-$1"
	"$build/tests/fuzz/fuzz-$1" "-max_total_time=$seconds" -max_len=524288 -timeout=10 \
		-rss_limit_mb=2048 -print_final_stats=1 "-artifact_prefix=$build/findings-$1/" \
		"$build/corpus-$1" "$root/tests/fuzz/corpus-$1"
}

pids=()
for target in $targets; do
	run_target "$target" >"$build/fuzz-$target.log" 2>&1 &
	pids+=($!)
done
failed=0
for target in $targets; do
	status=0
	wait "${pids[0]}" || status=$?
	pids=("${pids[@]:1}")
	# Without a single run a target proves nothing.
	if [ "$status" = 0 ] && grep -q '^stat::number_of_executed_units: [1-9]' "$build/fuzz-$target.log"; then
		printf '%s: %s runs, nothing found\n' "$target" \
			"$(sed -n 's/^stat::number_of_executed_units: //p' "$build/fuzz-$target.log")"
	else
		failed=1
		tail -n 60 "$build/fuzz-$target.log"
		printf '%s: FAILED with %d; input in %s\n' "$target" "$status" "$build/findings-$target"
	fi
done
exit "$failed"
