#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Runs inside a minimal system, for roots.sh: in_root.sh wheel|deb PYTHON. Prints the commands from
# nothing to a leak of a PyOpenCL script that is named by line: three, within five minutes. They
# install the wheel into a new environment, at a path with a blank, or the Debian package into the
# system. Then checks more of what was installed.
set -eu
kind=$1 python=$2
work=/var/packaging/$kind-$python
place="$work/with space"
export LC_ALL=C.UTF-8

fail() {
	printf 'in_root: %s\n' "$*" >&2
	exit 1
}

for compiler in cc gcc clang tcc; do
	if command -v "$compiler"; then fail "this system has a compiler"; fi
done

rm -rf "$work"
mkdir -p "$place"
# The line of the script that allocates what leaks.
judge() { # NAME EXPECTED-STATUS STATUS
	if [ "$3" != "$2" ] || ! grep -qE 'frames_pyopencl\.py:[0-9]+' "$work/out"; then
		cat "$work/out"
		fail "$1: status $3, not $2, or no line of the script"
	fi
	grep -m1 -E 'gpuleak: ' "$work/out"
}

# Runs the LINES, of which the last one is gpuleak's.
first_leak() { # LINES...
	local line status start=$SECONDS

	for line; do
		status=0
		printf '$ %s\n' "$line"
		sh -c "$line" >"$work/out" 2>&1 </dev/null || status=$?
		[ "$status" = 0 ] || [ "$status" = 23 ] || break
	done
	judge 'the first leak' 23 "$status"
	printf '[%d commands, %d s]\n' $# $((SECONDS - start))
	[ $((SECONDS - start)) -le 300 ] || fail 'more than five minutes'
}

script=/given/frames_pyopencl.py
if [ "$kind" = wheel ]; then
	venv=$place/venv/bin
	gpuleak=$venv/gpuleak python_here=$venv/python pip="'$venv/pip' install"
	lines=("$python -m venv '$place/venv'")
	# pip accepts the wheel's tag from 20.3 on. Only Ubuntu 20.04 has an older one: Python 3.9 can make
	# an environment with a newer one. Python 3.8 cannot, but pip may replace itself for the user there.
	if [ "$("$python" -c 'import ensurepip; print(ensurepip.version())' | cut -d. -f1)" -ge 21 ]; then
		:
	elif "$python" -c 'import sys; sys.exit(sys.version_info < (3, 9))'; then
		lines=("$python -m venv --upgrade-deps '$place/venv'")
	else
		export HOME=$place
		gpuleak=$HOME/.local/bin/gpuleak python_here=$python pip="$python -m pip install --user"
		lines=("$pip -q -U pip")
	fi
	first_leak "${lines[@]}" \
		"$pip -q --only-binary :all: /given/gpuleak-*.whl pyopencl pocl-binary-distribution" \
		"'$gpuleak' run --gate -- '$python_here' $script"
	sh -c "$pip -q --only-binary :all: pytest"
	library=$("$python_here" -c 'import os, gpuleak
print(os.path.join(os.path.dirname(gpuleak.__file__), "_native/lib/libgpuleak.so"))')
	# As a user would do without the command: LD_PRELOAD cannot have a blank. The link does not lie
	# beside what the library needs.
	mkdir -p "$work/lib"
	ln -sf "$library" "$work/lib/libgpuleak.so"
	library=$work/lib/libgpuleak.so
else
	export DEBIAN_FRONTEND=noninteractive
	first_leak 'apt-get -q update' \
		'apt-get -q install -y --no-install-recommends /given/gpuleak.deb python3-pyopencl pocl-opencl-icd' \
		"gpuleak run --gate -- python3 $script"
	gpuleak=$(command -v gpuleak) python_here=/usr/bin/python3
	library=libgpuleak.so
fi

# Children inherit the library.
status=0
"$gpuleak" run --gate -- sh -c '"$0" "$1"; exit $?' "$python_here" "$script" >"$work/out" 2>&1 ||
	status=$?
judge 'gpuleak run with a shell between' 23 "$status"

# The library alone finds the command that reports.
status=0
LD_PRELOAD=$library "$python_here" "$script" >"$work/out" 2>&1 || status=$?
judge 'LD_PRELOAD' 0 "$status"

# What Python changes for itself does not reach the program.
inherited='grep SigIgn /proc/self/status; echo "LC_CTYPE=${LC_CTYPE-unset}"'
LC_ALL= sh -c "$inherited" >"$work/wanted"
LC_ALL= "$gpuleak" run -- sh -c "$inherited" >"$work/out" 2>&1
head -n 2 "$work/out" | cmp -s "$work/wanted" - || {
	cat "$work/out"
	fail 'the program inherits other signals or variables'
}

if [ "$kind" = deb ]; then
	python3 -c 'import gpuleak; print(gpuleak.__version__)' || fail 'no Python module'
	exit
fi
"$gpuleak" run -- "$python_here" -c 'import gpuleak; assert gpuleak.active()' || fail 'the module is not active'
cat >"$work/test_leak.py" <<'END'
import pyopencl as cl
import pytest

kept = []

@pytest.mark.limit_gpu_leaks("1 KiB")
def test_keeps():
    context = cl.Context(cl.get_platforms()[0].get_devices())
    kept.append(cl.Buffer(context, cl.mem_flags.READ_WRITE, 4096))
END
status=0
"$gpuleak" run -- "$python_here" -m pytest -q --gpuleak -p no:cacheprovider "$work/test_leak.py" >"$work/out" 2>&1 || status=$?
if [ "$status" != 1 ] || ! grep -q 'test_leak.py:9' "$work/out"; then
	cat "$work/out"
	fail "pytest: status $status, not 1, or no line of the test"
fi
