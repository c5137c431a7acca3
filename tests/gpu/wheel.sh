#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Installs the wheel, and nothing else of gpuleak, with pip into a folder of its own, and runs parts
# of run.sh with what it has: what a user gets who has nothing but the wheel. No compiler of gpuleak
# and no library beside the wheel's own may be needed.
#
#   tests/gpu/wheel.sh RESULTS WHEEL [part ...]     parts: those of run.sh that need no program of a build
set -u
here=$(cd "$(dirname "$0")" && pwd)
results=$(mkdir -p "$1" && cd "$1" && pwd)
wheel=$(realpath "$2")
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m pip install -q --no-index --no-deps --target "$work/site" "$wheel" || exit 1
mkdir -p "$work/build/interpose" "$work/build/tools"
ln -s "$work/site/gpuleak/_native/lib/libgpuleak.so" "$work/build/interpose/"
ln -s "$work/site/bin/gpuleak" "$work/build/tools/gpuleak"
export PYTHONPATH=$work/site
for file in "$work"/site/gpuleak/_native/bin/gpuleak "$work"/site/gpuleak/_native/lib/*.so*; do
	echo "$(basename "$file") needs: $(ldd "$file" | awk '{ print $1 == "/lib64/ld-linux-x86-64.so.2" ? $1 : $3 == "" ? $1 : $3 }' | tr '\n' ' ')"
done >>"$results/summary.txt"
"$here/run.sh" "$results" "$work/build" ${*:-calls ends errors suballocations frameworks pools}
