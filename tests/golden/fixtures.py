#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Reports on small ledgers that a text describes: fixtures/NAME. The report has to be NAME.text, and
in JSON NAME.json. With --update, these files are written instead."""

import argparse
import difflib
import os
import pathlib
import subprocess
import sys
import tempfile

FIXTURES = pathlib.Path(__file__).resolve().parent / "fixtures"
FORMATS = ("text", "json")


def report(options, fixture, name):
    """Returns the report on FIXTURE in the format NAME."""
    with tempfile.TemporaryDirectory() as home:
        ledger = os.path.join(home, "ledger")
        subprocess.run([options.writer, fixture, ledger], check=True)
        env = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "HOME": home, "XDG_RUNTIME_DIR": home}
        return subprocess.run([options.command, "report", "--format", name, ledger], env=env,
                              check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True).stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--writer", required=True, type=os.path.abspath)
    parser.add_argument("--command", required=True, type=os.path.abspath)
    parser.add_argument("--update", action="store_true")
    options = parser.parse_args()
    count = failed = 0
    for fixture in sorted(path for path in FIXTURES.iterdir() if not path.suffix):
        for name in FORMATS:
            expected = fixture.with_suffix("." + name)
            got = report(options, fixture, name)
            if options.update:
                expected.write_text(got, encoding="utf-8")
            diff = list(difflib.unified_diff(expected.read_text(encoding="utf-8").split("\n"),
                                             got.split("\n"), "expected", "got", lineterm=""))
            count += 1
            failed += bool(diff)
            print("%s %d - %s as %s" % ("not ok" if diff else "ok", count, fixture.name, name))
            for line in diff:
                print("# " + line)
    print("1..%d" % count)
    return 1 if failed else 0


sys.exit(main())
