#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Installs what is missing, builds gpuleak, and lets it find the leaks of real programs: one uses
# CUDA's driver and one CUDA's runtime (without a GPU, on stand-ins), one OpenCL (on the CPU, by
# PoCL), one is a PyOpenCL script. Ends with 0 if gpuleak found what it should.
#
#   tools/quickstart.sh [cuda] [cudart] [opencl] [pyopencl]     all unless named
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=tools/steps.sh
. tools/steps.sh

stories=${*:-cuda cudart opencl pyopencl}
targets="interpose/libgpuleak.so tools/gpuleak"
for story in $stories; do
	case $story in
	cuda) targets="$targets standin/driver/libcuda.so.1 tests/programs/p_cuda_wrong_frees" ;;
	cudart)
		targets="$targets standin/driver/libcuda.so.1 standin/runtime/libcudart.so.12"
		targets="$targets standin/runtime/libcudart.so.13 tests/fake_gpu/p_cudart"
		;;
	opencl) targets="$targets tests/programs/p_cl_leak" ;;
	pyopencl) ;;
	*) sed -n '4,8s/^# \{0,1\}//p' "$0"; exit 2 ;;
	esac
done

tools/setup.sh --demo

# A folder of its own: this build takes half the time of an optimized one, and is not for daily use.
build="build-quickstart"
if [ ! -e "$build/build.ninja" ]; then
	step "quickstart: setting up the folder $build" meson setup -Doptimization=0 "$build"
fi
# shellcheck disable=SC2086 # a list of words
step "quickstart: building gpuleak in $build" ninja -C "$build" $targets

# PoCL gets the processors from hwloc, which finds none without /sys; PoCL aborts then.
if [ ! -d /sys/devices/system ] && [ -z "${HWLOC_SYNTHETIC-}${HWLOC_XMLFILE-}" ]; then
	HWLOC_SYNTHETIC=pu:$(nproc)
	export HWLOC_SYNTHETIC
	echo "/sys is not mounted, and PoCL would abort: going on with HWLOC_SYNTHETIC=$HWLOC_SYNTHETIC" \
		"(better, as root: mount -t sysfs sysfs /sys)"
fi

failed=0

# Shows a command and what it prints. It must end with 23, the gate's "leaks found", and
# name a line of FILE.
show() { # FILE COMMAND...
	local file=$1 status=0 log

	shift
	log=$(mktemp)
	printf '\n$ %s\n' "$*"
	"$@" >"$log" 2>&1 </dev/null || status=$?
	cat "$log"
	if [ "$status" = 23 ] && grep -q "$file:[0-9]" "$log"; then
		echo "[exit status 23: the gate failed, as it should: the program leaks]"
	else
		echo "[exit status $status: NOT WHAT WAS EXPECTED, which is 23 and lines of $file]"
		failed=1
	fi
	rm -f "$log"
}

for story in $stories; do
	case $story in
	cuda)
		printf '\n== A CUDA program that forgets a block and frees others wrongly ==\n'
		show cuda_wrong_frees.c env "LD_LIBRARY_PATH=$build/standin/driver" \
			"$build/tools/gpuleak" run --gate -- "$build/tests/programs/p_cuda_wrong_frees"
		;;
	cudart)
		printf '\n== A program as nvcc -cudart shared makes them, on a machine without a GPU ==\n'
		show leak.c "$build/tools/gpuleak" run --fake-gpu --gate -- \
			"$build/tests/fake_gpu/p_cudart" launch
		;;
	opencl)
		printf '\n== An OpenCL program that loses 3 of 5 buffers, one retained too often ==\n'
		show cl_leak.c "$build/tools/gpuleak" run --gate -- \
			"$build/tests/programs/p_cl_leak" five
		;;
	pyopencl)
		printf '\n== A PyOpenCL script whose ten pictures all stay on the device ==\n'
		show frames_pyopencl.py "$build/tools/gpuleak" run --gate -- \
			/usr/bin/python3 docs/examples/frames_pyopencl.py
		;;
	esac
done

if [ "$failed" = 0 ]; then
	cat <<-END

	All did what they should. For a program of your own:
	  $PWD/$build/tools/gpuleak run -- PROGRAM
	  $PWD/$build/tools/gpuleak run --fake-gpu -- PROGRAM     (without a GPU)
	  LD_PRELOAD=$PWD/$build/interpose/libgpuleak.so PROGRAM
	This build is not optimized. A build for daily use: docs/guides/install.md
	END
fi
exit "$failed"
