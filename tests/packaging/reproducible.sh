#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Makes the files of a release from the last commit twice, in clones at different paths, and compares
# the bytes: the wheel, the Debian package, the source archive, and the archive of `meson dist`. On
# demand, no test depends on it: it takes twenty minutes and needs the network.
#
#   tests/packaging/reproducible.sh [x86_64 | aarch64]
set -eu
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
machine=${1:-$(uname -m)}
commit=$(git -C "$root" rev-parse HEAD)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for place in "$work/one" "$work/another/place/of/the/same"; do
	mkdir -p "$(dirname "$place")"
	git clone -q "$root" "$place"
	git -C "$place" checkout -q --detach "$commit" # another may come meanwhile
	# The archives are the same by their hashes.
	mkdir -p "$root/build-package/downloads" "$place/build-package"
	ln -s "$root/build-package/downloads" "$place/build-package/downloads"
	"$place/tools/package.sh" wheel "$machine"
	"$place/tools/package.sh" deb "$machine"
	"$place/tools/package.sh" source
	meson setup "$place/build" "$place" >"$work/log" && meson dist -C "$place/build" --no-tests >>"$work/log" || {
		cat "$work/log" >&2
		exit 1
	}
	(cd "$place" && sha256sum build-package/dist/* build/meson-dist/*.tar.xz) | sort >"$work/sums"
	[ "$(wc -l <"$work/sums")" = 4 ] || { cat "$work/sums" >&2; echo 'reproducible: not four files' >&2; exit 1; }
	[ -e "$work/first" ] || mv "$work/sums" "$work/first"
done
if ! diff "$work/first" "$work/sums"; then
	echo 'reproducible: two builds differ' >&2
	exit 1
fi
echo 'reproducible: twice'
cat "$work/sums"
