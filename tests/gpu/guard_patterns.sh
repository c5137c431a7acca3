#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Patterns on a real GPU: each planted write is found, with its clean twin as without a guard, and
# what a pair of cudaMalloc and cudaFree costs. Writes one line for each story.
#
#   tests/gpu/guard_patterns.sh PROGRAM GPULEAK     PROGRAM: guard_patterns.cu, built with
#                                                   nvcc -arch=sm_90 -cudart static; GPULEAK: build/tools/gpuleak
set -u
program=$1 gpuleak=$2
failed=0

# story NAME TYPE COUNT: the errors of TYPE that the report has; "none" 0: no error at all. A program
# with an error may end by it (a write after the free, where the driver has unmapped the block): then its
# output is not compared. A correct one must run.
story() {
	local report bare guarded found status

	report=$(mktemp)
	bare=$("$program" "$1" 2>/dev/null)
	status=$?
	guarded=$(timeout 100 "$gpuleak" run --guard patterns --format json --report "$report" -- "$program" "$1" 2>/dev/null)
	found=$(python3 - "$report" "$2" <<'PY'
import json, sys
try:
    report = json.load(open(sys.argv[1]))
except ValueError:
    sys.exit("no report")
errors = report["errors"]
types = [e["type"] for e in errors]
print(len(types) if sys.argv[2] == "none" else types.count(sys.argv[2]), end="")
print(" guarded %d unguarded %s" % (report["guard"]["guarded_blocks"], report["guard"]["unguarded"]), file=sys.stderr, end="")
PY
)
	if [ "$found" = "$3" ] && [ $status = 0 ] && [ "$bare" = "$guarded" ]; then
		echo " ok: $1"
	elif [ "$found" = "$3" ] && [ $status != 0 ] && [ "$3" != 0 ]; then
		echo " ok: $1 (without gpuleak it ends with status $status)"
	else
		echo " FAILED: $1: $found of $3 errors; output '$guarded', bare '$bare', status $status"
		failed=1
	fi
	rm -f "$report"
}

for name in behind-1 behind-16 behind-256 before; do
	story "$name" write-out-of-bounds 1
	story "clean-$name" none 0
done
story after-free write-after-free 1
story clean-after-free none 0
story other-stream write-out-of-bounds 1
story clean-other-stream none 0
story busy none 0
story captured none 0
echo "bare: $("$program" time | tr '\n' ' ')"
echo "patterns: $("$gpuleak" run --guard patterns --report none -- "$program" time 2>/dev/null | tr '\n' ' ')"
exit $failed
