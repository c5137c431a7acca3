#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Unpacks nvcc of CUDA 13.0 and the runtimes of 12.9 and 13.0, with their headers, from the packages
# that tests/scripts/pypi.sh fetched, beside these. Prints the folder `nvidia`, in which cu13 and
# cuda_runtime lie. Needs no network.
set -eu
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
pypi=$("$here/../scripts/pypi.sh" --folder)
made=$pypi/nvcc-$(cat "${BASH_SOURCE[0]}" | sha256sum | cut -c 1-16)
if [ ! -d "$made" ]; then
	work=$(mktemp -d "$made.XXXXXX")
	# The distribution's pip installs without an environment only where it is told so.
	/usr/bin/python3 -m venv "$work/venv"
	"$work/venv/bin/python" -m pip --disable-pip-version-check -q install --no-deps --no-index \
		--no-cache-dir --require-hashes --find-links "$pypi" --target "$work/root" \
		-r "$here/nvcc.requirements" -r "$here/../frameworks/cuda-headers.requirements" >&2
	ln -s libcudart.so.13 "$work/root/nvidia/cu13/lib/libcudart.so"
	# Another run may have put the same files there meanwhile.
	mv -T "$work/root" "$made" 2>/dev/null || [ -d "$made" ]
	rm -rf "$work"
fi
printf '%s\n' "$made/nvidia"
