#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Builds the documentation site into DIR, strictly: a link to nothing is an error. GPULEAK is the
# command, which makes the example report; it needs PyOpenCL and PoCL (tools/setup.sh --demo), and
# python3-yaml. mkdocs comes from what tests/scripts/pypi.sh fetched, or from PyPI; --offline: never
# from PyPI. VENV holds it, build/site-venv unless named.
#
#   docs/site.sh [--offline] GPULEAK DIR [VENV]
set -eu
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
offline=''
if [ "${1-}" = --offline ]; then
	offline=1
	shift
fi
[ $# -ge 2 ] || { sed -n '4,9s/^# \{0,1\}//p' "$0"; exit 2; }
gpuleak=$(realpath "$1")
site=$(realpath -m "$2")
venv=$(realpath -m "${3:-$root/build/site-venv}")
requirements=$root/tests/scripts/site.requirements

from=()
if pypi=$("$root/tests/scripts/pypi.sh" --folder 2>/dev/null); then
	from=(--no-index --find-links "$pypi")
elif [ "$offline" ]; then
	echo "docs/site.sh: no mkdocs: run tools/setup.sh --tests" >&2
	exit 77
fi

mkdir -p "$(dirname "$venv")"
exec 9>"$venv.lock"
flock 9
made_of=$(sha256sum <"$requirements")
if [ "$(cat "$venv/.made-of" 2>/dev/null)" != "$made_of" ]; then
	rm -rf "$venv"
	/usr/bin/python3 -m venv --system-site-packages "$venv"
	"$venv/bin/python" -m pip --disable-pip-version-check -q install --no-deps --require-hashes \
		--ignore-installed --only-binary :all: "${from[@]}" -r "$requirements"
	printf '%s\n' "$made_of" >"$venv/.made-of"
fi

cd "$root"
GPULEAK=$gpuleak PYTHONDONTWRITEBYTECODE=1 NO_MKDOCS_2_WARNING=1 \
	"$venv/bin/mkdocs" build --strict --site-dir "$site"
