#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Fetches the packages that tests take from PyPI, pinned by content. tools/setup.sh --tests runs
# this, so that no test needs the network.
#
#   tests/scripts/pypi.sh             fetch the packages, unless they are there
#   tests/scripts/pypi.sh --folder    print their folder; fail if they are not there
#
# The folder is in the user's cache. Its name changes with the requirements.
set -eu
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
frameworks=$here/../frameworks
fake_gpu=$here/../fake_gpu
key=$(cat "$here"/*.requirements "$frameworks"/*.requirements "$fake_gpu"/*.requirements | sha256sum | cut -c 1-16)
folder=${XDG_CACHE_HOME:-$(echo ~)/.cache}/gpuleak/pypi-$key

if [ "${1-}" = --folder ]; then
	if [ ! -d "$folder" ]; then
		echo "what tests take from PyPI is not there: run tools/setup.sh --tests" >&2
		exit 1
	fi
	echo "$folder"
	exit
fi
[ ! -d "$folder" ] || exit 0

mkdir -p "${folder%/*}"
work=$(mktemp -d "$folder.XXXXXX")
trap 'rm -rf "$work"' EXIT
# pip asks a source package for its name with the distribution's setuptools.
/usr/bin/python3 -m venv --system-site-packages "$work/venv"

fetch() { # PIP-OPTIONS...
	"$work/venv/bin/python" -m pip --disable-pip-version-check -q download --no-deps \
		--require-hashes --no-build-isolation -d "$work/packages" "$@" </dev/null
}

fetch -r "$here/schemas.requirements" -r "$frameworks/cuda-headers.requirements" \
	-r "$fake_gpu/nvcc.requirements"
fetch --only-binary :all: -r "$here/site.requirements"
fetch --no-binary :all: -r "$frameworks/pycuda.requirements"
# Another run may have put the same packages there meanwhile.
mv -T "$work/packages" "$folder" 2>/dev/null || [ -d "$folder" ]
