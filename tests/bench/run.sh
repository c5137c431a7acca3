#!/bin/bash
# SPDX-License-Identifier: MIT
#
# What gpuleak costs, on the stand-in driver, each figure beside the same program without
# the preload in the same run. Run on demand; no test depends on it. `ninja tests` builds its programs.
#
#   tests/bench/run.sh [BUILD]
set -eu
build=$(cd "${1:-$(dirname "$0")/../../build}" && pwd)
lib=$build/interpose/libgpuleak.so
gpuleak=$build/tools/gpuleak
bench=$build/tests/bench
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LD_LIBRARY_PATH=$build/standin/driver

median() { sort -n | awk '{ a[NR] = $1 } END { print a[int((NR + 1) / 2)] }'; }
with() { LD_PRELOAD=$lib GPULEAK_REPORT=none "$@"; }
times() { local n=$1 i; shift; for i in $(seq "$n"); do "$@" 2>/dev/null; done | median; }

echo "machine: $(nproc) cores, $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), $(date -u +%F)"
echo
echo "a cuMemAlloc/cuMemFree pair below 20 frames, ns per pair and thread (median of 5)"
echo "threads    bare  no stacks  20 frames  20 frames, no stack ever met again"
for t in 1 2 4 8 16; do
	printf '%7d %7s %10s %10s %10s\n' $t "$(times 5 "$bench/bench-pair" $t)" \
		"$(GPULEAK_STACK_DEPTH=0 times 5 with "$bench/bench-pair" $t)" "$(times 5 with "$bench/bench-pair" $t)" \
		"$(times 5 with "$bench/bench-pair" $t 20 300000 0 1)"
done
echo
echo "the same in a range of NVTX or gpuleak.h, 20 frames, ns per pair and thread (median of 5)"
for t in 1 4; do
	printf '%7d %10s\n' $t "$(BENCH_RANGE=1 times 5 with "$bench/bench-pair" $t)"
done
echo
echo "a cuEventCreate/cuEventDestroy pair below 20 frames, ns per pair and thread (median of 5)"
echo "threads    bare  no stacks  20 frames"
for t in 1 4; do
	printf '%7d %7s %10s %10s\n' $t "$(times 5 "$bench/bench-pair" $t 20 1000000 0 0 1)" \
		"$(GPULEAK_STACK_DEPTH=0 times 5 with "$bench/bench-pair" $t 20 1000000 0 0 1)" \
		"$(times 5 with "$bench/bench-pair" $t 20 1000000 0 0 1)"
done
echo
echo "a cuMemAlloc/cuMemFree pair below 40 frames without frame pointers, at several places in turn, ns per pair (median of 5)"
echo "places     bare  no stacks  40 frames"
for n in 1 8 40; do
	printf '%7d %7s %10s %10s\n' $n "$(times 5 "$bench/bench-sites" $n)" \
		"$(GPULEAK_STACK_DEPTH=0 times 5 with "$bench/bench-sites" $n)" "$(times 5 with "$bench/bench-sites" $n)"
done
echo
echo "blocks allocated at distinct stacks of 20 calls, ns of the processor for one stack (median of 3)"
for n in 25000 100000 1000000; do
	printf '%7d %7s\n' $n "$(times 3 with "$bench/bench-stacks" $n)"
done
echo "a pair at these stacks in turn, once each stack is known, ns of the processor (median of 5)"
for n in 100 20000; do
	printf '%7d %7s\n' $n "$(times 5 with "$bench/bench-stacks" $n $((2000000 / n)))"
done
echo
torch=$build/tests/frameworks/torch
if [ -e "$torch/libtorch_python.so" ]; then
	tensor() { STANDIN_TORCH=$torch PYTHONPATH=$(dirname "$0")/../frameworks/torch/site-packages \
		/usr/bin/python3 "$(dirname "$0")/suballoc.py" "$1"; }
	with_tensor() { LD_PRELOAD=$lib GPULEAK_REPORT=none tensor "$1"; }
	echo "a tensor allocated and freed in the cache of PyTorch's stand-in, ns (median of 5)"
	echo "             bare  GPULEAK_SUBALLOCATIONS=off     on  on, no stacks"
	for what in native python cold; do
		printf '%-10s %6s %27s %6s %14s\n' $what "$(times 5 tensor $what)" \
			"$(GPULEAK_SUBALLOCATIONS=off times 5 with_tensor $what)" "$(times 5 with_tensor $what)" \
			"$(GPULEAK_STACK_DEPTH=0 times 5 with_tensor $what)"
	done
	echo
fi
if [ -x "$bench/bench-cl-pair" ] && "$bench/bench-cl-pair" pair 10 >"$work/cl" 2>&1; then
	echo "OpenCL on $(clinfo -l 2>/dev/null | sed -n 's/^Platform #0: //p'), ns (median of 5)    bare  preloaded"
	for what in pair handed shared argument enqueue event; do
		printf '%-10s %7s %10s\n' $what "$(times 5 "$bench/bench-cl-pair" $what)" "$(times 5 with "$bench/bench-cl-pair" $what)"
	done
	echo
	echo "a buffer created, filled, waited for, released, ns (median of 5, in turn)    bare  preloaded  pool"
	for mib in 1 4 64; do
		for what in bare off fast; do
			: >"$work/$what"
		done
		for i in 1 2 3 4 5; do
			"$bench/bench-cl-pair" use 300 $mib >>"$work/bare"
			with "$bench/bench-cl-pair" use 300 $mib >>"$work/off"
			GPULEAK_POOL=fast with "$bench/bench-cl-pair" use 300 $mib >>"$work/fast"
		done
		printf '%3d MiB %10s %10s %10s\n' $mib "$(median <"$work/bare")" "$(median <"$work/off")" "$(median <"$work/fast")"
	done
	echo
fi
echo "Python frames: $(python3 "$(dirname "$0")/python.py" "$build" 20 2>&1)"
echo "               $(with python3 "$(dirname "$0")/python.py" "$build" 20 pair 2>&1)"
echo
echo "a cuLaunchKernel, ns per call and thread (median of 5)"
echo "threads  caller        bare  pool off  pool fast"
for t in 1 4; do
	for caller in linked looked-up; do
		printf '%7d  %-9s %8s %9s %10s\n' $t $caller "$(times 5 "$bench/bench-launch" $caller $t)" \
			"$(times 5 with "$bench/bench-launch" $caller $t)" \
			"$(GPULEAK_POOL=fast times 5 with "$bench/bench-launch" $caller $t)"
	done
done
echo
bare=$(times 3 "$bench/bench-blocks" 100000)
tracked=$(times 3 with "$bench/bench-blocks" 100000)
echo "memory per live block, 100,000 blocks at 1,024 stacks: $tracked - $bare (the driver's) = $(awk "BEGIN { print $tracked - $bare }") bytes"

GPULEAK_LEDGER=$work/ledger with "$bench/bench-blocks" 100000 >"$work/out"
start=$(date +%s.%N)
"$gpuleak" report "$work/ledger" >"$work/report" 2>&1 || true
end=$(date +%s.%N)
echo "ledger: $(stat -c %s "$work/ledger") bytes; report over it: $(awk "BEGIN { print $end - $start }") s, $(grep -c '^Leak' "$work/report") leaks"
echo
python3 "$(dirname "$0")/top_cost.py" "$build"
echo
echo "start and end of a process, ms (median of 200, in turn)"
for program in "/bin/true" "bash -c :" "python3 -c pass"; do
	python3 - "$lib" $program <<'PY'
import os, statistics, subprocess, sys, time
lib, command = sys.argv[1], sys.argv[2:]
if command[-1] == "pass":
    command = ["/usr/bin/python3", "-c", "pass"]
def once(env):
    start = time.perf_counter()
    subprocess.run(command, env=env)
    return (time.perf_counter() - start) * 1e3
bare = dict(os.environ); bare.pop("LD_LIBRARY_PATH", None)
preloaded = dict(bare, LD_PRELOAD=lib)
a, b = [], []
for i in range(200):
    a.append(once(bare)); b.append(once(preloaded))
print("%-20s bare %.2f, preloaded %.2f, difference %.2f" % (" ".join(command), statistics.median(a), statistics.median(b), statistics.median(b) - statistics.median(a)))
PY
done
