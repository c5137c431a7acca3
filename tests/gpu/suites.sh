#!/bin/bash
# SPDX-License-Identifier: MIT
#
# The programs and routes suites on a machine that can't build them (no packages): runs
# what was built elsewhere, on this machine's C library and OpenCL. Shows that a build of
# Debian 12 works on another distribution.
#
#   tests/gpu/suites.sh RESULTS BUILD
set -u
here=$(cd "$(dirname "$0")/.." && pwd)
results=$(mkdir -p "$1" && cd "$1" && pwd)
build=$(cd "$2" && pwd)
passed=0 failed=0
for suite in programs:all routes:routes routes:coverage routes:lookups routes:cxx routes:ends routes:stacks programs:opencl; do
	name=${suite%:*} family=${suite#*:}
	python3 "$here/$name/run.py" "$family" --preload "$build/interpose/libgpuleak.so" --command "$build/tools/gpuleak" \
		--standin "$build/standin/driver" --programs "$build/tests/$name" >"$results/$name-$family.tap" 2>&1
	p=$(grep -c '^ok' "$results/$name-$family.tap"); f=$(grep -c '^not ok' "$results/$name-$family.tap")
	echo "$name $family: $p passed, $f failed, of them skipped $(grep -c '# SKIP' "$results/$name-$family.tap")"
	grep -A8 '^not ok' "$results/$name-$family.tap" | cut -c1-200 | head -60
	passed=$((passed + p)); failed=$((failed + f))
done
echo "$(. /etc/os-release; echo "$PRETTY_NAME"), $(ldd --version | head -1): $passed passed, $failed failed"
