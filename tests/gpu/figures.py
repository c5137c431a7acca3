#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares a gpuleak JSON report with the figures that the program itself printed as the last
line of its output: {"figures": [{"name", "bytes" or "blocks", "kinds", "module", "device"}]}. A
figure is the sum over what was not freed, leaked or held by a cache, of those kinds that has a
frame in a module whose file's name begins so; given for each device where "device" is set. Says EQUAL or DIFFERENT, to the byte.

  figures.py REPORT OUTPUT"""
import json
import os
import sys


def processes(report):
    return report.get("processes", [report])


def is_in(leak, module):
    return not module or any(os.path.basename(frame["module"] or "").startswith(module)
                             for frame in leak["stack"])


# Two processes may write into one line.
def objects(text):
    at = text.find('{"figures"')
    while at >= 0:
        found, length = json.JSONDecoder().raw_decode(text[at:])
        yield found
        at = text.find('{"figures"', at + length)


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        report = json.load(file)
    with open(sys.argv[2], encoding="utf-8", errors="replace") as file:
        expected = list(objects(file.read()))
    if not expected:
        print("the program printed no figures")
        return 1
    leaks = [leak for process in processes(report) for leak in process["leaks"] + process["cached"]]
    failed = False
    if not any(one["figures"] for one in expected):
        print("no figures to compare")
    for figure in (figure for one in expected for figure in one["figures"]):
        mine = [leak for leak in leaks if leak["kind"] in figure["kinds"]
                and figure.get("device", leak["device"]) == leak["device"]]
        what = "bytes" if "bytes" in figure else "blocks"
        ours = sum(leak[what] for leak in mine if is_in(leak, figure.get("module")))
        same = ours == figure[what]
        failed |= not same
        print("%s %d, gpuleak %d %s in %s: %s (others of these kinds: %d)" % (
            figure["name"], figure[what], ours, what, "/".join(figure["kinds"]),
            "EQUAL" if same else "DIFFERENT", sum(leak[what] for leak in mine) - ours))
    return failed


sys.exit(main())
