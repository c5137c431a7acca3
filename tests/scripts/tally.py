#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Counts the tests of one `meson test` run, the single ones inside TAP programs too.

tally.py STATUS LOGBASE    STATUS is meson's own, LOGBASE.json and LOGBASE.junit.xml its logs
Prints "PASSED FAILED SKIPPED"; what failed, and what it said of that, on stderr: a CI log whose
beginning is lost must still say it at its end.
"""

import json
import sys
import xml.etree.ElementTree as ElementTree

GOOD = {"OK", "EXPECTEDFAIL"}
MAX_LINES = 40  # of one test's output


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


def said(output):
    """Each "not ok" of a TAP test with the comments below it, else the end of all it printed."""
    lines, kept, bad = output.splitlines(), [], False
    for line in lines:
        bad = line.startswith("not ok") or (bad and line.startswith("#"))
        if bad:
            kept.append(line)
    kept = kept[:MAX_LINES] or lines[-MAX_LINES:]
    return "".join("    %s\n" % line for line in kept)


def count(logbase):
    """How each single test ended, and what to say of the failed ones."""
    inside = subtests(logbase + ".junit.xml")
    ends, failures = [], ""
    with open(logbase + ".json", encoding="utf-8") as log:
        for line in log:
            test = json.loads(line)
            end = ("passed" if test["result"] in GOOD
                   else "skipped" if test["result"] == "SKIP" else "failed")
            single = [(f"{test['name']}: {name}", e) for name, e in inside.get(test["name"], [])]
            # A program that crashed after its last "ok" failed all the same.
            if not single or (end == "failed" and all(e != "failed" for _, e in single)):
                single.append((f"{test['name']} ({test['result']})", end))
            failed = [name for name, e in single if e == "failed"]
            failures += "".join("FAILED: %s\n" % name for name in failed)
            if failed:
                failures += said(test.get("stdout", "") + test.get("stderr", ""))
            ends += [e for _, e in single]
    return ends, failures


def main():
    status, logbase = int(sys.argv[1]), sys.argv[2]
    try:
        ends, failures = count(logbase)
    except (OSError, ValueError, KeyError, ElementTree.ParseError) as error:
        ends, failures = [], f"tally: {logbase}: {error}\n"
    failed = ends.count("failed")
    # Meson said no, or there was nothing to say yes to.
    if not failed and (status or not ends):
        failed = 1
        failures += f"FAILED: {logbase}: meson test ended with {status}, {len(ends)} tests\n"
    sys.stderr.write(failures)
    print(ends.count("passed"), failed, ends.count("skipped"))


if __name__ == "__main__":
    main()
