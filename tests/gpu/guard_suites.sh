#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Short selections of other projects' own tests on a GPU, bare and under all levels of the guard: compares
# the result of each test, and lists what the guard found. Judges no finding: that is looked up by hand.
#
#   tests/gpu/guard_suites.sh RESULTS BUILD WHEELS [part ...]     parts: cupy numba rmm
#
# Installs nothing but what WHEELS has, into a folder of its own. To prepare it, with the Python version of the
# machine that has the GPU (CuPy's tests are only in its source package):
#
#   python3 -m pip download -d WHEELS pytest numba-cuda rmm-cu12
#   python3 -m pip download -d WHEELS --no-deps --no-binary cupy cupy
#
# LIMIT: seconds of each of the two runs of a part (120).
set -u
here=$(cd "$(dirname "$0")" && pwd)
results=$(mkdir -p "$1" && cd "$1" && pwd)
gpuleak=$(cd "$2" && pwd)/tools/gpuleak
wheels=$(cd "$3" && pwd)
shift 3
parts=" ${*:-cupy numba rmm} "
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
say() { printf '%s\n' "$*" | tee -a "$results/summary.txt"; }
wants() { case $parts in *" $1 "*) true ;; *) false ;; esac; }

# What the machine has stays in use: only missing packages come from the folder.
lacks() { ! PYTHONPATH=$work/site python3 -c "import $1" 2>/dev/null; }
take() { # MODULE PACKAGE
	lacks "$1" || return 0
	python3 -m pip install -q --no-index --find-links "$wheels" --target "$work/site" "$2" >>"$results/pip.txt" 2>&1
	! lacks "$1" || { say "guard, tests of $2: not installed ($(tail -1 "$results/pip.txt"))"; return 1; }
}
export PYTHONPATH=$work/site${PYTHONPATH:+:$PYTHONPATH}

suite() { # NAME ARGUMENTS of pytest
	local name=$1
	shift
	say "guard, tests of $name: $(timeout 590 python3 "$here/guard_suite.py" --command "$gpuleak" \
		--json "$results/guard-$name.json" --limit "${LIMIT:-120}" "$@" 2>&1 | tail -4 | tr '\n' ';')"
	python3 - "$results/guard-$name.json" <<'PY' | tee -a "$results/summary.txt"
import json, sys
try:
    errors = json.load(open(sys.argv[1]))["errors"]
except (OSError, ValueError) as error:
    sys.exit("   no results: %s" % error)
for error in errors[:20]:
    places = ["%s:%s" % (f["file"], f["line"]) for f in error["stack"] if f.get("file")]
    print("   %s by %s at %s" % (error["type"], error["api"], places[:3]))
PY
}

take pytest pytest || exit 1
if wants cupy && ! lacks cupy; then
	tar -xzf "$wheels"/cupy-[0-9]*.tar.gz -C "$work" 2>/dev/null
	tests=$(echo "$work"/cupy-*/tests/cupy_tests)
	if [ -d "$tests/core_tests" ]; then
		# beside the tests, so that the package is the installed one and not the source's
		mv "$(dirname "$tests")" "$work/cupy-tests"
		cd "$work/cupy-tests" && suite cupy cupy_tests/core_tests/test_ndarray*.py
	else
		say "guard, tests of cupy: the folder has no source package of it"
	fi
elif wants cupy; then
	say "guard, tests of cupy: not installed"
fi
if wants numba && take numba_cuda numba-cuda; then
	cd "$work" && suite numba --pyargs numba.cuda.tests.cudapy.test_cuda_array_interface \
		numba.cuda.tests.cudapy.test_array numba.cuda.tests.cudadrv.test_cuda_memory
fi
if wants rmm && take rmm rmm-cu12; then
	if lacks rmm.tests; then
		say "guard, tests of rmm: the wheel has none"
	else
		cd "$work" && suite rmm --pyargs rmm.tests -k "not pool_size and not managed"
	fi
fi
