#!/bin/bash
# SPDX-License-Identifier: MIT
#
# What the pool does and costs on a real GPU, every figure beside the same program without it in
# the same run, every result and report compared. Tables go to RESULTS/pool.txt, raw figures to
# pool.jsonl, the output of what went wrong to pool.log. Status 1 if anything was wrong or missed
# its mark. Without a GPU it runs on the stand-in driver, which shows that the scripts work.
#
#   tests/gpu/pool.sh RESULTS BUILD [part ...]   parts: torture pair handed behind churn patterns frameworks ipc opencl,
#                                                nccl (two GPUs), turns (own pool or none, many times)
#   tests/gpu/pool.sh pack FOLDER BUILD          what of a build this needs, without debug information
#
# ROUNDS (3): runs of each, the median counts; SECONDS_EACH (40) of torture; LOOPS (9), FRAMEWORKS and
# ALLOCATORS ("own pool; none; ...", else all) of frameworks; TURNS (10); PATTERN_COLUMNS ("bare; async; ...", else all),
# PATTERN_WATCH (1), PATTERN_N (1000 10000 100000), PATTERN_MAX (1 4 64 256 1024 4096, MiB: the largest request),
# PATTERN_ROUNDS (1); RMM: the folder of pool_patterns_rmm and RMM's libraries (its source says how to build it).
set -u
here=$(cd "$(dirname "$0")" && pwd)
. "$here/pack.sh"

pack() { # the layout of a build; libraries that the other machine may lack in lib, RMM's in rmm
	local to=$1 build=$2

	pack_files "$to" "$build" interpose/libgpuleak.so tools/gpuleak tests/bench/pool-pair \
		tests/bench/pool-patterns tests/bench/bench-cl-pair tests/torture/torture \
		tests/opencl/cl-memory tests/programs/p_cl_leak
	if [ -n "${RMM:-}" ]; then
		mkdir -p "$to/rmm" && cp "$RMM"/* "$to/rmm/" && strip --strip-unneeded "$to"/rmm/*
	fi
	du -sh "$to"
}
if [ "$1" = pack ]; then
	pack "$2" "$3"
	exit
fi

results=$(mkdir -p "$1" && cd "$1" && pwd)
build=$(cd "$2" && pwd)
shift 2
parts=${*:-torture pair handed behind churn patterns frameworks ipc opencl}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
say() { printf '%s\n' "$*" | tee -a "$results/pool.txt"; }
wants() { case " $parts " in *" $1 "*) true ;; *) false ;; esac; }

# The programs were linked to the stand-in, and would find it where it was carried along.
real=$(ldconfig -p | awk '/libcuda\.so\.1 .*x86-64/ { print $NF; exit }')
mkdir "$work/driver"
if [ -n "$real" ]; then
	ln -s "$real" "$work/driver/libcuda.so.1"
	say "gpu: $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | tr '\n' ';')"
else
	ln -s "$build/standin/driver/libcuda.so.1" "$work/driver/libcuda.so.1"
	export STANDIN_ASYNC=1
	say "gpu: none, the stand-in driver: no figure here says anything"
fi
for lib in "$build"/lib/*; do # carried along, and not here
	[ -e "$lib" ] || continue
	ldconfig -p | grep -q "$(basename "$lib") " || ln -s "$lib" "$work/driver/"
done
[ -d "$build/rmm" ] && export RMM=${RMM:-$build/rmm}
export LD_LIBRARY_PATH=$work/driver${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
say "date: $(date -u +%F), $(nproc) cores, $(. /etc/os-release; echo "$PRETTY_NAME"), $(ldd --version | head -1)"
DEVICES=$(nvidia-smi --query-gpu=index --format=csv,noheader 2>/dev/null | tr '\n' ' ')
export DEVICES=${DEVICES:-1}

nvcc=$(command -v nvcc || true)
cuda=$(dirname "$(dirname "$(readlink -f "${nvcc:-/usr/local/cuda/bin/nvcc}")")")
build_cuda() { # NAME: programs/NAME.cu with a static cudart
	[ -n "$nvcc" ] && [ -n "$real" ] || return 0
	"$nvcc" -O2 -g -arch=sm_90 -cudart static -o "$work/$1" "$here/programs/$1.cu" || say "WRONG: $1.cu was not built"
}
wants churn && build_cuda churn
wants nccl && build_cuda peer
if wants turns; then
	gcc -O2 -Wall -shared -fPIC -o "$work/floor.so" "$here/programs/floor.c" || say "WRONG: floor.c was not built"
fi
if wants ipc; then
	build_cuda ipc
	gcc -O2 -g -I"$cuda/include" -o "$work/pool_ipc" "$here/programs/pool_ipc.c" -L"$work/driver" -l:libcuda.so.1 ||
		say "WRONG: pool_ipc.c was not built"
fi
if wants opencl; then
	# The toolkit's own loader knows no variable for vendors: the distribution's is taken.
	mkdir "$work/loader"
	ln -s /lib/x86_64-linux-gnu/libOpenCL.so.1 "$work/loader/"
	export LD_LIBRARY_PATH=$work/loader:$LD_LIBRARY_PATH
	PLATFORMS=
	if [ -n "$real" ]; then
		mkdir "$work/icd-NVIDIA" && echo libnvidia-opencl.so.1 >"$work/icd-NVIDIA/nvidia.icd" && PLATFORMS=NVIDIA
	fi
	if [ -e /etc/OpenCL/vendors/pocl.icd ]; then
		mkdir "$work/icd-PoCL" && cp /etc/OpenCL/vendors/pocl.icd "$work/icd-PoCL/" && PLATFORMS="$PLATFORMS PoCL"
	fi
	export PLATFORMS
	for platform in $PLATFORMS; do
		say "platform for $platform: $(OCL_ICD_VENDORS=$work/icd-$platform python3 -c '
import ctypes
cl, p, name = ctypes.CDLL("libOpenCL.so.1"), ctypes.c_void_p(), ctypes.create_string_buffer(200)
print(cl.clGetPlatformIDs(1, ctypes.byref(p), None), cl.clGetPlatformInfo(p, 0x0902, 200, name, None), name.value.decode())')"
	done
fi

status=0
for part in $parts; do
	start=$(date +%s)
	python3 "$here/pool_runs.py" "$results" "$build" "$work" "$part" || status=1
	say "($part: $(($(date +%s) - start)) s)"
done
exit $status
