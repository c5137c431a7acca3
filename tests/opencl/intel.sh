#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# The tests of run_opencl.py about the end of an implementation, on Intel's CPU runtime for OpenCL.
# It destroys what is left when the process ends. Fetches the runtime from PyPI (225 MB), unless it
# is there, into the user's cache. Then runs 50 programs that end with commands in the queue, while
# other processes keep all processors busy.
#
#   tests/opencl/intel.sh BUILD
set -eu
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$(cd "$1" && pwd)
runs=50
busy=6
key=$(sha256sum <"$here/intel.requirements" | cut -c 1-16)
folder=${XDG_CACHE_HOME:-$(echo ~)/.cache}/gpuleak/intel-$key

if [ ! -d "$folder" ]; then
	mkdir -p "${folder%/*}"
	work=$(mktemp -d "$folder.XXXXXX")
	trap 'rm -rf "$work"' EXIT
	/usr/bin/python3 -m venv "$work"
	"$work/bin/python" -m pip --disable-pip-version-check -q install --require-hashes \
		-r "$here/intel.requirements" </dev/null
	mv -T "$work" "$folder" 2>/dev/null || [ -d "$folder" ]
fi
INTEL_OPENCL=$folder/lib/libintelocl.so
export INTEL_OPENCL

"$here/run_opencl.py" ending --preload "$build/interpose/libgpuleak.so" \
	--command "$build/tools/gpuleak" --standin "$build/standin/driver" \
	--programs "$build/tests/opencl"

OCL_ICD_VENDORS=$(mktemp -d)
export OCL_ICD_VENDORS
pids=()
trap 'kill "${pids[@]}"; rm -rf "$OCL_ICD_VENDORS" "${work-}"' EXIT
echo "$INTEL_OPENCL" >"$OCL_ICD_VENDORS/intel.icd"
for ((i = 0; i < busy; i++)); do
	while :; do :; done &
	pids+=($!)
done
failed=0
for ((i = 0; i < runs; i++)); do
	GPULEAK_REPORT=$OCL_ICD_VENDORS/report LD_PRELOAD=$build/interpose/libgpuleak.so \
		"$build/tests/opencl/cl-ending" copy >"$OCL_ICD_VENDORS/out" || failed=$((failed + 1))
	grep -q ': no leaks' "$OCL_ICD_VENDORS/report" || failed=$((failed + 1))
done
echo "commands in the queue at the end: $failed of $runs runs failed"
[ "$failed" = 0 ]
