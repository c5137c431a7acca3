#!/bin/bash
# SPDX-License-Identifier: MIT
# Who kept a buffer, and what is released and not freed, on whatever OpenCL the loader finds:
# one line a story. Then what handles cost. run.sh sets the loader up.
#
#   opencl_handles.sh BUILD RESULTS
set -u
build=$1 results=$2
here=$(cd "$(dirname "$0")" && pwd)
programs=$build/tests/programs

tell() {
	python3 - "$1" <<'PY'
import json, sys
report = json.load(open(sys.argv[1]))
told, sums = report["released"], report["summary"]
print("leaked %d, allocated %d, freed %d, errors %d, objects %d; released: held %d bytes, peak %d, "
      "longest wait %.3f ms, held by %s; history %s" % (
          sums["leaked_blocks"], sums["allocated_blocks"], sums["freed_blocks"], sums["errors"],
          sum(item["count"] for item in report["objects"]), told["held_bytes"],
          told["peak_bytes"], told["longest_wait_ns"] / 1e6,
          [[by["what"] for by in held["held_by"]] for held in told["held"]],
          [(event["op"], event["partner"]) for leak in report["leaks"]
           for event in leak.get("history", {"events": []})["events"]][:8]))
PY
}

for story in "history two" "history hundred" "history threads" "released command" "released never" \
	"released parts" "released callbacks" "released threads" "released late" "objects left" \
	"objects clean" "objects with-kernel" "objects turns"; do
	file=$results/opencl-${story/ /-}
	rm -f "$file.json"
	"$build/tools/gpuleak" run --format json --report "$file.json" -- \
		"$programs/p_cl_${story% *}" "${story#* }" >"$file.txt" 2>&1
	echo "p_cl_${story/ / }: exit $?, $(tell "$file.json")"
done
for what in pair shared argument enqueue event; do
	echo "bench-cl-pair $what, ns: $("$here/paired.py" "$build/interpose/libgpuleak.so" 5 \
		"$build/tests/bench/bench-cl-pair" $what 20000)"
done
