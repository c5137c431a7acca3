#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Other projects' own tests on a GPU, bare and under all levels of the guard: compares the result of each
# test, and lists what the guard found. Judges no finding: that is looked up by hand.
#
#   tests/gpu/guard_suites.sh RESULTS BUILD CARRY [part ...]     parts: numba rmm cupy cupy-cuda
#
# CARRY has what the machine with the GPU lacks: wheels/ (for its version of Python; a package that it has
# stays in use), and the tests with a configuration of pytest, from the sources of the same versions:
# cupy/conftest.py, cupy/cupy_tests, cupy/pyproject.toml; rmm/tests, rmm/pytest.ini (empty: warnings are no
# errors); numba/conftest.py (testing/conftest.py of numba-cuda), numba/pytest.ini with
# `consider_namespace_packages = true`.
#
# LIMIT: seconds of a part (140; rmm and cupy-cuda take two thirds). Where CuPy's tests end earlier, other
# samples of their parameters follow. FAKE=1 tries the script on the stand-in driver, where most tests fail.
set -u
here=$(cd "$(dirname "$0")" && pwd)
results=$(mkdir -p "$1" && cd "$1" && pwd)
gpuleak=$(cd "$2" && pwd)/tools/gpuleak
carry=$(cd "$3" && pwd)
shift 3
parts=${*:-numba rmm cupy cupy-cuda}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/site"
export PYTHONPATH=$work/site${PYTHONPATH:+:$PYTHONPATH} PYTHONDONTWRITEBYTECODE=1 CUPY_CACHE_DIR=$work/cupy
nvcc=$(readlink -f "$(command -v nvcc)") && export CUDA_HOME=${CUDA_HOME:-${nvcc%/bin/nvcc}}
python3 -m pip list 2>/dev/null | grep -iE '^(numba|cuda|cupy|numpy|rmm|pytest)' | tr -s ' \n' ' ,'

take() { # MODULE PACKAGE...: unpacks wheels, one after another, until the machine can import the module
	local module=$1 package error
	shift
	for package in '' "$@"; do
		[ -z "$package" ] || python3 -m zipfile -e "$(echo "$carry/wheels/$package"-[0-9]*.whl)" "$work/site"
		if compgen -G "$work/site/*.pth" >/dev/null; then # numba-cuda's is in effect only where site finds it
			echo "import site; site.addsitedir('$work/site')" >"$work/site/sitecustomize.py"
		fi
		error=$(python3 -c "import $module" 2>&1) && return
	done
	echo "no $module: ${error##*$'\n'}"
	return 1
}

suite() { # NAME SECONDS OPTIONS of gpuleak run, ARGUMENTS of guard_suite.py
	local name=$1 seconds=$2 run="$fake $3"
	shift 3
	echo "== $name: $(date +%T)"
	timeout $((seconds + 60)) python3 "$here/guard_suite.py" --command "$gpuleak" --limit "$seconds" --run "$run" \
		${fake:+"--run-bare=$fake"} --json "$results/$name.json" "$@" "${timeout[@]}" 2>&1 |
		tee "$results/$name.txt" | cut -c1-600 | head -24
}

# CuPy takes a fifteenth of its parameters and types at random
cupy() { # NAME SECONDS ARGUMENTS
	local name=$1 end=$((SECONDS + $2)) seed
	shift 2
	for seed in 1 2 3 4 5; do
		[ $((end - SECONDS)) -gt 60 ] || break
		CUPY_TEST_RANDOM_SUBSAMPLE=1 _CUPY_TEST_SUBSAMPLE_SEED=$seed suite "$name-$seed" $((end - SECONDS)) "$@"
	done
}

numba() {
	take filecheck filecheck && take numba.cuda.testing numba_cuda cuda_core cuda_bindings cuda_pathfinder
}

LIMIT=${LIMIT:-140}
fake=${FAKE:+--fake-gpu}
levels="--guard copies,patterns,pages --guard-sample 4"
timeout=()
take pytest_timeout pytest_timeout && timeout=(--timeout 60 --timeout-method thread)
for part in $parts; do
	case $part in
	numba)
		numba || continue
		mapfile -t modules < <(python3 -c 'import importlib.util as u, sys
print(*("numba.cuda.tests." + m for m in sys.argv[1:] if u.find_spec("numba.cuda.tests." + m)), sep="\n")' cudadrv \
			cudapy.test_{array,array_alignment,array_args,array_methods,array_reductions,atomics,blackscholes} \
			cudapy.test_{constmem,cuda_array_interface,device_array_capture,gufunc,ipc,laplace,localmem,matmul} \
			cudapy.test_{montecarlo,multithreads,operator,random,record_dtype,reduction,slicing,sm,sm_creation} \
			cudapy.test_{transpose,ufuncs,vectorize,vector_type,warp_ops,retrieve_autoconverted_arrays})
		cd "$carry/numba" && suite numba "$LIMIT" "$levels" --pyargs "${modules[@]}" ;;
	rmm)
		numba || continue # RMM's tests use it
		take rmm rapids_logger librmm_cu13 rmm_cu13 || continue
		cd "$carry/rmm" && suite rmm $((LIMIT * 2 / 3)) "$levels" --jobs 4 tests ;;
	cupy)
		cd "$carry/cupy" && cupy cupy "$LIMIT" "$levels --bypass-pools" \
			cupy_tests/{core,creation,indexing,manipulation}_tests ;;
	cupy-cuda) # its tests of memory pools need them
		cd "$carry/cupy" && cupy cupy-cuda $((LIMIT * 2 / 3)) "$levels" cupy_tests/cuda_tests ;;
	esac
done
exit 0
