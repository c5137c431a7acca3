#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Looks for code of the same shape in report/: clones.py SIM_C ROOT. TAP.

SIM_C is sim_c of similarity-tester. Two pieces of code have the same shape if they differ only in
layout, comments, names and constants, and call the same functions (-F)."""
import pathlib
import re
import subprocess
import sys

from text_layout import tracked

FOLDER = "report/"
LINES = 12
TOKENS = 60  # fewer are never more than LINES lines of code
PLACE = re.compile(r"([^\s|]+): line (\d+)-(\d+)")


def clones(sim_c, root):
    """Yields [(file, first line, last line)] of each pair of places."""
    names = [name for name in tracked(root) if name.startswith(FOLDER) and name.endswith(".c")]
    run = subprocess.run([sim_c, "-f", "-F", "-n", "-T", "-r", str(TOKENS), *names], cwd=root,
                         stdout=subprocess.PIPE, check=True)
    for line in run.stdout.decode().split("\n"):
        places = [(name, int(first), int(last)) for name, first, last in PLACE.findall(line)]
        if min([last - first + 1 for _, first, last in places], default=0) > LINES:
            yield places


def main():
    found = list(clones(sys.argv[1], pathlib.Path(sys.argv[2])))
    for places in found:
        print("# the same shape: " + ", ".join("%s:%d-%d" % place for place in places))
    print("%sok 1 - no two places in %s share more than %d lines of the same shape\n1..1"
          % ("not " if found else "", FOLDER, LINES))
    return bool(found)


sys.exit(main())
