#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Runs build.sh without OSS-Fuzz and lets each target read its archive of seeds, from $OUT alone.
#
#   tests/fuzz/oss-fuzz/local.sh DIR
#
# DIR keeps the build. Needs clang with its runtime for fuzzers.
set -eu
mkdir -p "$1/out" "$1/work"
dir=$(cd "$1" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
export CC=clang CXX=clang++ LIB_FUZZING_ENGINE=-fsanitize=fuzzer OUT=$dir/out WORK=$dir/work
export CFLAGS='-O1 -g -fsanitize=address,fuzzer-no-link' CXXFLAGS=''
tests/fuzz/oss-fuzz/build.sh
for target in $(tests/scripts/fuzz.sh --list); do
	rm -rf "$dir/seeds"
	mkdir "$dir/seeds"
	python3 -m zipfile -e "$OUT/fuzz-${target}_seed_corpus.zip" "$dir/seeds"
	"$OUT/fuzz-$target" -runs=0 -timeout=10 "$dir/seeds" >"$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }
	read -r seeds < <(find "$dir/seeds" -type f | wc -l)
	grep -q "INFO: seed corpus: files: $seeds " "$dir/log" || { cat "$dir/log"; exit 1; }
	printf '%s: %s seeds\n' "$target" "$seeds"
done
