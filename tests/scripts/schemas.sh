#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Fetches the schemas that the YAML of the documentation is held against, from PyPI, into DIR:
# github-workflow.json, gitlab-ci.json, and a folder kubernetes, one file a kind of object. What
# is there already is left alone.
#
#   tests/scripts/schemas.sh DIR
set -eu
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
KUBERNETES=v1.34.0-local-strict

mkdir -p "$1"
dir=$(cd "$1" && pwd)
made_of="$(sha256sum <"$here/schemas.requirements") $KUBERNETES"
if [ "$(cat "$dir/.made-of" 2>/dev/null)" = "$made_of" ]; then
	exit 0
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
/usr/bin/python3 -m venv "$work/venv"
"$work/venv/bin/python" -m pip --disable-pip-version-check -q install --no-deps --require-hashes \
	-r "$here/schemas.requirements"
site=$("$work/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
vendor=$site/check_jsonschema/builtin_schemas/vendor
cp "$vendor/github-workflows.json" "$dir/github-workflow.json"
cp "$vendor/gitlab-ci.json" "$dir/gitlab-ci.json"
rm -rf "$dir/kubernetes"
cp -r "$site/kubernetes_validate/kubernetes-json-schema/$KUBERNETES" "$dir/kubernetes"
printf '%s\n' "$made_of" >"$dir/.made-of"
