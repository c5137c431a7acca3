#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Builds PyCUDA from its source package, against CUDA's headers and the libcuda.so in LIBCUDA_DIR,
# into the virtual environment DIR; one that is there and complete is left alone. Needs neither a
# CUDA toolkit nor a GPU nor the network: tests/scripts/pypi.sh fetched both packages. What was built
# stays beside these, for the next DIR: two minutes of a processor. numpy, mako
# and pytools are the distribution's (python3-pyopencl brings them); for a PYTHON that is not the
# distribution's they come from PyPI.
#
#   tests/frameworks/pycuda.sh DIR LIBCUDA_DIR [PYTHON]
set -eu
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
pypi=$("$here/../scripts/pypi.sh" --folder)
mkdir -p "$1"
venv=$(cd "$1" && pwd)
# Tests may run at the same time, and one of them builds.
exec 9>"$venv.lock"
flock 9
libcuda=$(cd "$2" && pwd)
python=${3:-/usr/bin/python3}

made_of=$(cat "$here"/*.requirements "${BASH_SOURCE[0]}" | sha256sum)
made_of="$made_of $("$python" -VV)"
if [ "$(cat "$venv/.made-of" 2>/dev/null)" = "$made_of" ]; then
	exit 0
fi

rm -rf "$venv"
"$python" -m venv --system-site-packages "$venv"

# Another CUDA must not come in by nvcc in PATH, nor by the compiler's own variables.
run_pip() { # COMMAND OPTIONS...
	env -u LIBRARY_PATH -u CPATH HOME="$venv/home" CFLAGS='-O0 -g0' CXXFLAGS='-O0 -g0' \
		XDG_CONFIG_HOME="${XDG_CONFIG_HOME:-$HOME/.config}" \
		PATH="$venv/bin:/usr/bin:/bin" "$venv/bin/python" -m pip --disable-pip-version-check -q "$1" --no-deps \
		--require-hashes --no-build-isolation --no-cache-dir --no-index --find-links "$pypi" "${@:2}"
}

# An interpreter that is not the distribution's lacks these.
missing=$("$venv/bin/python" - <<-'END'
	import importlib.util
	print(*(name for name in ("numpy", "mako", "pytools", "setuptools", "wheel")
	        if not importlib.util.find_spec(name)))
END
)
if [ "$missing" ]; then
	# shellcheck disable=SC2086 # a list of words
	"$venv/bin/python" -m pip --disable-pip-version-check -q install $missing
fi

mkdir "$venv/home"
run_pip install --ignore-installed -r "$here/cuda-headers.requirements"
headers=$(dirname "$("$venv/bin/python" - <<-'END'
	import pathlib, sysconfig
	print(*pathlib.Path(sysconfig.get_paths()["purelib"]).glob("nvidia/*/include/cuda.h"))
END
)")

# PyCUDA's build reads this file of the home directory.
cat >"$venv/home/.aksetup-defaults.py" <<END
CUDA_ROOT = None
CUDA_INC_DIR = ["$headers"]
CUDADRV_LIB_DIR = ["$libcuda"]
CUDA_ENABLE_CURAND = False
END
# A build holds nothing of LIBCUDA_DIR: it links -lcuda, and the dynamic linker searches then.
built=$pypi/pycuda-$(printf '%s' "$made_of" | sha256sum | cut -c 1-16)
if [ ! -d "$built" ]; then
	work=$(mktemp -d "$built.XXXXXX")
	# Unoptimized: only its calls into the driver are of interest, and it builds faster.
	run_pip wheel -w "$work" --no-binary :all: -r "$here/pycuda.requirements"
	# Another run may have put the same package there meanwhile.
	mv -T "$work" "$built" 2>/dev/null || rm -rf "$work"
fi
"$venv/bin/python" -m pip --disable-pip-version-check -q install --no-deps --no-index "$built"/*.whl
printf '%s\n' "$made_of" >"$venv/.made-of"
