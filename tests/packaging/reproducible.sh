#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Builds the wheel of the last commit twice, in clones at different paths, and compares the bytes. On
# demand, no test depends on it: it takes ten minutes and needs the network.
#
#   tests/packaging/reproducible.sh [x86_64 | aarch64]
set -eu
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
machine=${1:-$(uname -m)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sums=()

for place in "$work/one" "$work/another/place/of/the/same"; do
	mkdir -p "$(dirname "$place")"
	git clone -q "$root" "$place"
	# The archives are the same by their hashes.
	mkdir -p "$root/build-package/downloads" "$place/build-package"
	ln -s "$root/build-package/downloads" "$place/build-package/downloads"
	"$place/tools/package.sh" wheel "$machine"
	sums+=("$(sha256sum "$place"/build-package/dist/*.whl | cut -d' ' -f1)")
done
if [ "${sums[0]}" != "${sums[1]}" ]; then
	echo "reproducible: two builds differ: ${sums[*]}" >&2
	exit 1
fi
echo "reproducible: twice ${sums[0]}"
