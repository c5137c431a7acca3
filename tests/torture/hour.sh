#!/bin/bash
# SPDX-License-Identifier: MIT
#
# The long torture: every way of using the library in turn, each with new seeds, until the time is
# over. A failure is printed with the line that repeats it, and the next way goes on; exit 1 then.
#
#   tests/torture/hour.sh [BUILD] [SECONDS] [FIRST-SEED]     REAL=DIR: DIR/libcuda.so.1 is a real driver
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "${1:-$here/../../build}" && pwd)
seconds=${2:-3600}
seed=${3:-$(date +%s)}
each=${EACH:-15}
ways=${WAYS:-fast strict fast-slab strict-large-slab fast-many-threads
	fast-large-slab large-slab-small-cache fast-prealloc fast-small-cache fast-limit fast-fail-from bare}
[ -n "${REAL:-}" ] || ways="$ways fast-tight fast-two-devices fast-record-fails slab-query-fails old-driver
	late-slab late-tight waits mutation"
driver=(--standin "${REAL:-$build/standin/driver}")
[ -z "${REAL:-}" ] || driver+=(--real-driver)
failures=0 runs=0 end=$((SECONDS + seconds))

while [ $SECONDS -lt $end ]; do
	for way in $ways; do
		[ $SECONDS -lt $end ] || break
		seed=$((seed + 1)) runs=$((runs + 1))
		if ! "$here/run.py" "$way" --preload "$build/interpose/libgpuleak.so" \
			--mutated "$build/interpose/libgpuleak-no-fences.so" \
			--long-batches "$build/interpose/libgpuleak-long-batches.so" --programs "$build/tests/torture" \
			"${driver[@]}" --seeds "$seed" --seconds "$each" >"${TMPDIR:-/tmp}/torture.$$" 2>&1; then
			failures=$((failures + 1))
			echo "== $way, seed $seed"
			cat "${TMPDIR:-/tmp}/torture.$$"
		fi
	done
done
rm -f "${TMPDIR:-/tmp}/torture.$$"
echo "torture: $runs runs in $SECONDS seconds, the last seed $seed, $failures failed"
[ $failures = 0 ]
