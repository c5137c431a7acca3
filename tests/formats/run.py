#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""What each format holds, read with the tool or the schema that it is for: run.py FAMILY ...

Debian's python3 and not the first one in PATH: setup.sh installs its modules. A tool that is
missing skips its tests; with CI or GPULEAK_MUST_RUN set, it fails them, unless tools/setup.sh does not
fetch it either (NotFetched)."""

import argparse
import os
import sys
import tempfile
import traceback

sys.dont_write_bytecode = True

import checks_command
import checks_github
import checks_junit
import checks_profiles
import checks_openmetrics
import checks_sarif
import checks_text
import checks_trace
import tools

FAMILIES = {
    "junit": checks_junit.CHECKS,
    "sarif": checks_sarif.CHECKS,
    "github": checks_github.CHECKS,
    "folded": checks_profiles.FOLDED,
    "pprof": checks_profiles.PPROF,
    "openmetrics": checks_openmetrics.CHECKS,
    "memory-viz": checks_trace.MEMORY_VIZ,
    "perfetto": checks_trace.PERFETTO,
    "text": checks_text.CHECKS,
    "command": checks_command.CHECKS,
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("family", choices=FAMILIES)
    for name in ("preload", "command", "standin", "programs", "others"):
        parser.add_argument("--" + name, required=True, type=os.path.abspath)
    given = parser.parse_args()
    must = os.environ.get("CI") or os.environ.get("GPULEAK_MUST_RUN")
    checks = FAMILIES[given.family]
    failed = 0
    print("1..%d" % len(checks))
    for number, check in enumerate(checks, 1):
        name = check.__doc__.splitlines()[0].rstrip(".")
        with tempfile.TemporaryDirectory(prefix="gpuleak-formats-") as home:
            try:
                check(tools.Place(given, home))
                print("ok %d - %s" % (number, name))
            except tools.Missing as missing:
                fails = must and not isinstance(missing, tools.NotFetched)
                failed += bool(fails)
                how = "not ok %d - %s: %s" if fails else "ok %d - %s # SKIP %s"
                print(how % (number, name, missing))
            except Exception:  # whatever it is, the next check is another one
                failed += 1
                print("not ok %d - %s" % (number, name))
                print("".join("# " + line + "\n" for line in
                              traceback.format_exc().splitlines()), end="")
        sys.stdout.flush()
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
