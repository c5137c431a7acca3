#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Python programs on a real GPU: PyCUDA, PyOpenCL, CuPy, PyTorch, JAX, whichever can be imported
# here; each a leak of known blocks at a known line, with the framework's cache on and off; what
# the report says is held against that. Tables go to RESULTS/python.txt, reports beside them.
# Status 1 if anything was wrong. Without a GPU it runs on the stand-in driver what that can run.
#
#   tests/gpu/python.sh RESULTS BUILD [framework ...]   pycuda pyopencl cupy torch jax
#   tests/gpu/python.sh pack FOLDER BUILD PYTHON...     what of a build this needs, and PyCUDA and
#                            PyOpenCL for each of these interpreters, that the other may lack
#
# PYTHON (python3): the interpreter that has the frameworks. PAIRS (2000) of each measurement.
set -u
here=$(cd "$(dirname "$0")" && pwd)
. "$here/pack.sh"
root=$(cd "$here/../.." && pwd)

pack_python() { # FOLDER LIBCUDA_DIR PYTHON
	local venv tag site

	venv=$(mktemp -d)
	"$root/tests/scripts/pypi.sh" || return 1
	"$root/tests/frameworks/pycuda.sh" "$venv" "$2" "$3" || return 1
	"$venv/bin/python" -m pip -q --disable-pip-version-check install pyopencl || return 1
	tag=$("$venv/bin/python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
	site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
	mkdir -p "$1/python/$tag/site-packages"
	# As installed, for the rules that know frameworks by their folder; numpy comes with every framework there; pip and the headers are not needed.
	(cd "$site" && tar cf - --exclude='numpy*' --exclude='pip*' --exclude='nvidia*' \
		--exclude='setuptools*' --exclude='wheel*' --exclude='__pycache__' .) |
		tar xf - -C "$1/python/$tag/site-packages"
	find "$1/python/$tag/site-packages" -name '*.so*' -type f -exec strip --strip-debug {} \;
	rm -rf "$venv" "$venv.lock"
	echo "for Python $tag: $(find "$1/python/$tag/site-packages" -maxdepth 1 -name '*.dist-info' -printf '%f ')"
}

pack() { # the layout of a build; libraries that the other machine may lack in lib
	local to=$1 build=$2 file

	pack_files "$to" "$build" interpose/libgpuleak.so tools/gpuleak
	install -D -m 644 "$build/python/bypass/sitecustomize.py" "$to/python/bypass/sitecustomize.py"
	install -D -m 644 -t "$to/python/gpuleak" "$build"/python/gpuleak/*.py
	shift 2
	for file in "$@"; do
		pack_python "$to" "$build/standin/driver" "$file" || echo "WRONG: nothing for $file"
	done
	du -sh "$to"
}
if [ "$1" = pack ]; then
	shift
	mkdir -p "$1"
	pack "$(cd "$1" && pwd)" "$(cd "$2" && pwd)" "${@:3}"
	exit
fi

results=$(mkdir -p "$1" && cd "$1" && pwd)
build=$(cd "$2" && pwd)
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
say() { printf '%s\n' "$*" | tee -a "$results/python.txt"; }

python=$(command -v "${PYTHON:-python3}")
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
real=$(ldconfig -p | awk '/libcuda\.so\.1 .*x86-64/ { print $NF; exit }')
mkdir "$work/driver"
if [ -n "$real" ]; then
	ln -s "$real" "$work/driver/libcuda.so.1"
	say "gpu: $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | tr '\n' ';')"
else
	ln -s "$build/standin/driver/libcuda.so.1" "$work/driver/libcuda.so.1"
	say "gpu: none, the stand-in driver: no figure here says anything"
fi
for lib in "$build"/lib/*; do # carried along, and not here
	[ -e "$lib" ] || continue
	ldconfig -p | grep -q "$(basename "$lib") " || ln -s "$lib" "$work/driver/"
done
if [ -d "$build/python/$version" ]; then
	export PYTHONPATH=$build/python/$version/site-packages${PYTHONPATH:+:$PYTHONPATH}
fi
# NVIDIA's OpenCL, where no file of the system names it.
if [ -n "$real" ] && ldconfig -p | grep -q libnvidia-opencl; then
	mkdir "$work/icd" && echo libnvidia-opencl.so.1 >"$work/icd/nvidia.icd"
	export OCL_ICD_VENDORS=$work/icd OPENCL_VENDOR_PATH=$work/icd
fi
say "date: $(date -u +%F), $(nproc) cores, $(. /etc/os-release; echo "$PRETTY_NAME"), $("$python" -VV | head -1)"

LD_LIBRARY_PATH=$work/driver${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} \
	"$python" "$here/python_runs.py" "$results" "$build" "$work" "$@"
