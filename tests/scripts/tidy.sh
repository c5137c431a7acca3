#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Runs the checks of .clang-tidy over the product's C files, two at a time: some minutes.
#
#   tests/scripts/tidy.sh BUILD [FILE...]
#
# BUILD is configured for clang, which does not know all of gcc's flags. FILE is relative to the
# repository; without one, all C files of interpose, ledger, report and tools are checked.
set -eu
build=$(cd "${1:?"usage: $0 BUILD [FILE...]"}" && pwd)
shift
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# Headers that the build makes, and the files that it compiles.
ninja -C "$build" build.ninja >/dev/null
ninja -C "$build" -t targets all | sed -n 's/^\(report\/[^ ]*\.[ch]\): CUSTOM_COMMAND.*/\1/p' |
	xargs -r ninja -C "$build" >/dev/null
[ $# -gt 0 ] || mapfile -t files < <(python3 - "$build" <<'PYTHON'
import json, os, sys
build = sys.argv[1]
with open(build + "/compile_commands.json", encoding="utf-8") as text:
    paths = {os.path.relpath(os.path.join(c["directory"], c["file"])) for c in json.load(text)}
print(*sorted(path for path in paths if path.endswith(".c")
              and path.startswith(("interpose/", "ledger/", "report/", "tools/"))), sep="\n")
PYTHON
)
[ $# = 0 ] || files=("$@")
[ ${#files[@]} -gt 0 ] || { echo "no files in $build/compile_commands.json" >&2; exit 1; }

# The analyzer in its deep mode needs more than 20 minutes for one file of inlined functions.
shallow=(-Xclang -analyzer-config -Xclang mode=shallow)
printf '%s\0' "${files[@]}" |
	xargs -0 -P 2 -n 4 clang-tidy -p "$build" --quiet "${shallow[@]/#/--extra-arg=}" 2>/dev/null ||
	{ echo "clang-tidy failed" >&2; exit 1; }
echo "${#files[@]} files: clang-tidy finds nothing"
