#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A subject is a file and a row: toy_subject.py WRITER TOY COMMAND SOURCE. Prints TAP.

Compares the reports of the command TOY, which has the toy subject, with those of COMMAND."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

WRITER, TOY, COMMAND, SOURCE = (os.path.abspath(arg) for arg in sys.argv[1:5])
FIXTURES = pathlib.Path(SOURCE, "tests", "golden", "fixtures")
count = failed = 0


def check(name, wanted, got):
    global count, failed
    count += 1
    failed += wanted != got
    print("%s %d - %s" % ("ok" if wanted == got else "not ok", count, name))
    if wanted != got:
        print("# wanted: %r\n# got:    %r" % (wanted, got))


def more_lines(*args):
    """Returns the lines that only TOY prints, after what both print alike."""
    toy, usual = (subprocess.run([command, *args], check=False, text=True, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE).stdout.split("\n")
                  for command in (TOY, COMMAND))
    return [line for line in toy if line not in usual], [line for line in usual if line not in toy]


def main():
    with tempfile.TemporaryDirectory() as home:
        os.environ.update(HOME=home, XDG_RUNTIME_DIR=home, LC_ALL="C.UTF-8")
        ledger = os.path.join(home, "ledger")
        subprocess.run([WRITER, FIXTURES / "growth", ledger], check=True)
        check("a section of the text report, with what was read from the ledger", ([
            "toy: 1.0 MiB of the average allocation; call sites: 1"], []),
              more_lines("report", ledger))
        check("metrics", ([
            "# HELP gpuleak_toy_mean_bytes Bytes of the average allocation.",
            "# TYPE gpuleak_toy_mean_bytes gauge",
            'gpuleak_toy_mean_bytes{pid="4242",program="app"} 1048576',
            "# HELP gpuleak_toy_allocations Allocations.",
            "# TYPE gpuleak_toy_allocations gauge",
            'gpuleak_toy_allocations{pid="4242",program="app"} 6'], []),
              more_lines("report", "--format", "openmetrics", ledger))
        check("a reason of the gate", ([
            "gate failed: the average allocation is larger than 4.0 KiB"], []),
              more_lines("check", ledger))
        toy, usual = (json.loads(subprocess.run(
            [command, "report", "--format", "json", ledger], check=True,
            stdout=subprocess.PIPE).stdout) for command in (TOY, COMMAND))
        check("a key of JSON", {"mean_bytes": 1048576, "allocations": 6}, toy.pop("toy", None))
        check("the rest of JSON", usual, toy)
    print("1..%d" % count)
    return 1 if failed else 0


sys.exit(main())
