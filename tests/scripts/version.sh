#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# The version stands in python/gpuleak/VERSION alone. Whatever has a version has this one, and NEWS
# begins with it: version.sh BUILD. Prints TAP.
set -u
build=$(cd "$1" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
version=$(cat python/gpuleak/VERSION)
number=0 failed=0

expect() { # NAME TEXT SEEN
	number=$((number + 1))
	if [ "$2" = "$3" ]; then
		echo "ok $number - $1"
	else
		echo "not ok $number - $1"
		printf "expected '%s', seen '%s'\n" "$2" "$3" | sed 's/^/# /'
		failed=1
	fi
}

python() { PYTHONPATH=python PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 -c "$1" 2>&1; }

echo 1..7
expect 'it is three numbers' "$version" "$(grep -xE '[0-9]+\.[0-9]+\.[0-9]+' python/gpuleak/VERSION)"
expect 'gpuleak --version' "gpuleak $version" "$("$build/tools/gpuleak" --version | sed '1s/ (.*//;q')"
expect 'the Python package' "$version" "$(python 'from gpuleak import __version__; print(__version__)')"
expect 'and it has no other attribute by accident' False \
	"$(python 'import gpuleak; print(hasattr(gpuleak, "__versions__"))')"
expect 'METADATA for pip' "Version: $version" "$(grep '^Version' "$build/python/METADATA" || echo "Version: $version")"
expect 'the first line of NEWS' "gpuleak $version" "$(sed '1s/ (.*//;q' NEWS)"
expect 'no other file of the product sets it' '' \
	"$(grep -rnE "(^|[^a-z_])(__)?version(__)?[\"' ]*[:=][\"' ]*${version//./\\.}" meson.build ./*/meson.build \
		python packaging tools docs/man)"
exit "$failed"
