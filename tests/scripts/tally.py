#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Counts the tests of one `meson test` run, the single ones inside TAP programs too.

tally.py STATUS LOGBASE    STATUS is meson's own, LOGBASE.json and LOGBASE.junit.xml its logs
Prints "PASSED FAILED SKIPPED", then the names of what failed on stderr.
"""

import json
import sys
import xml.etree.ElementTree as ElementTree

GOOD = {"OK", "EXPECTEDFAIL"}


def subtests(path):
    """Of each TAP test, by its name: how its single tests ended."""
    found = {}
    for suite in ElementTree.parse(path).getroot().iter("testsuite"):
        _, dot, name = suite.get("name").partition(".")
        if not dot:
            continue  # tests that have an exit status and nothing else
        found[name] = [
            (case.get("name"),
             "failed" if case.find("failure") is not None or case.find("error") is not None
             else "skipped" if case.find("skipped") is not None else "passed")
            for case in suite.iter("testcase")]
    return found


def count(logbase):
    inside = subtests(logbase + ".junit.xml")
    ends = []
    with open(logbase + ".json", encoding="utf-8") as log:
        for line in log:
            test = json.loads(line)
            end = ("passed" if test["result"] in GOOD
                   else "skipped" if test["result"] == "SKIP" else "failed")
            single = [(f"{test['name']}: {name}", e) for name, e in inside.get(test["name"], [])]
            # A program that crashed after its last "ok" failed all the same.
            if not single or (end == "failed" and all(e != "failed" for _, e in single)):
                single.append((f"{test['name']} ({test['result']})", end))
            ends += single
    return ends


def main():
    status, logbase = int(sys.argv[1]), sys.argv[2]
    try:
        ends = count(logbase)
    except (OSError, ValueError, KeyError, ElementTree.ParseError) as error:
        print(f"tally: {logbase}: {error}", file=sys.stderr)
        ends = []
    failed = [name for name, end in ends if end == "failed"]
    # Meson said no, or there was nothing to say yes to.
    if not failed and (status or not ends):
        failed = [f"{logbase}: meson test ended with {status}, {len(ends)} tests"]
    for name in failed:
        print(f"FAILED: {name}", file=sys.stderr)
    print(sum(end == "passed" for _, end in ends), len(failed),
          sum(end == "skipped" for _, end in ends))


if __name__ == "__main__":
    main()
