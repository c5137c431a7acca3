#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Copies the recipes to DIR with what is known once a release exists: its version, the account of
# its repository, and the hashes of its source archive. Fails if a place was not filled.
#
#   packaging/recipes/fill.sh DIR OWNER ARCHIVE
set -eu
[ $# = 3 ] || { sed -n '4,7s/^# \{0,1\}//p' "$0"; exit 2; }
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
version=$(basename "$3" .tar.gz)
version=${version#gpuleak-}
[[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] || { echo "fill: $3 is no source archive" >&2; exit 1; }
[[ $2 =~ ^[A-Za-z0-9-]+$ ]] || { echo "fill: $2 is no account" >&2; exit 1; }
mkdir -p "$1"
cp -r "$here"/{conda-forge,spack,nix,vcpkg} "$1"
find "$1" -type f -exec sed -i "s/@VERSION@/$version/g; s/@OWNER@/$2/g
	s/@SHA256@/$(sha256sum <"$3" | cut -d' ' -f1)/g
	s/@SHA512@/$(sha512sum <"$3" | cut -d' ' -f1)/g" {} +
! grep -rnE '@[A-Z0-9]+@' "$1" || { echo 'fill: a place was not filled' >&2; exit 1; }
