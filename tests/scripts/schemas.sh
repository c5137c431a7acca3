#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Unpacks the schemas that the YAML of the documentation is checked against into DIR:
# github-workflow.json, gitlab-ci.json, and a folder kubernetes, one file a kind of object. What
# is there already is left alone. The packages are those that pypi.sh fetched.
#
#   tests/scripts/schemas.sh DIR
set -eu
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
KUBERNETES=v1.34.0-local-strict

pypi=$("$here/pypi.sh" --folder)
mkdir -p "$1"
dir=$(cd "$1" && pwd)
# Tests may run at the same time.
exec 9>"$dir/.lock"
flock 9
made_of="$(sha256sum <"$here/schemas.requirements") $KUBERNETES"
if [ "$(cat "$dir/.made-of" 2>/dev/null)" = "$made_of" ]; then
	exit 0
fi

/usr/bin/python3 - "$pypi" "$dir" "$KUBERNETES" <<'END'
import glob, os, shutil, sys, zipfile

pypi, target, kubernetes = sys.argv[1:]
VENDOR = "check_jsonschema/builtin_schemas/vendor/"
FILES = {VENDOR + "github-workflows.json": "github-workflow.json",
         VENDOR + "gitlab-ci.json": "gitlab-ci.json"}
FOLDER = "kubernetes_validate/kubernetes-json-schema/%s/" % kubernetes
shutil.rmtree(os.path.join(target, "kubernetes"), ignore_errors=True)
os.mkdir(os.path.join(target, "kubernetes"))
for path in glob.glob(os.path.join(pypi, "*.whl")):
    with zipfile.ZipFile(path) as wheel:
        for name in wheel.namelist():
            folder, _, last = name.rpartition("/")
            to = FILES.get(name) or (folder + "/" == FOLDER and last and "kubernetes/" + last)
            if to:
                with open(os.path.join(target, to), "wb") as file:
                    file.write(wheel.read(name))
END
printf '%s\n' "$made_of" >"$dir/.made-of"
