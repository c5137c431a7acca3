#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Counts the tests of one `meson test` run, the single ones inside TAP programs too.

tally.py STATUS LOGBASE SKIPS    STATUS is meson's own, LOGBASE.json and LOGBASE.junit.xml its logs
Prints "PASSED FAILED SKIPPED"; what failed, and what it said of that, on stderr: a CI log whose
beginning is lost must still say it at its end. Appends what was skipped, with the reason, to SKIPS.
"""

import json
import sys
import xml.etree.ElementTree as ElementTree

GOOD = {"OK", "EXPECTEDFAIL"}
MAX_LINES = 40  # of one test's output


def subtests(path):
    """Of each TAP test, by its name: how its single tests ended, and why it was skipped."""
    found = {}
    for suite in ElementTree.parse(path).getroot().iter("testsuite"):
        _, dot, name = suite.get("name").partition(".")
        if not dot:
            continue  # tests that have an exit status and nothing else
        found[name] = [
            (case.get("name"),
             "failed" if case.find("failure") is not None or case.find("error") is not None
             else "skipped" if case.find("skipped") is not None else "passed",
             case.findtext("system-out") or "")
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


def reason(output):
    """Why a whole test was skipped: what is behind the first "# SKIP", or the last line."""
    lines = output.strip().splitlines() or ["no reason"]
    return next((line.partition("# SKIP")[2].strip() for line in lines if "# SKIP" in line), lines[-1])


def count(logbase):
    """How each single test ended, and what to print about the failed and the skipped ones."""
    inside = subtests(logbase + ".junit.xml")
    ends, failures, skips = [], "", ""
    with open(logbase + ".json", encoding="utf-8") as log:
        for line in log:
            test = json.loads(line)
            end = ("passed" if test["result"] in GOOD
                   else "skipped" if test["result"] == "SKIP" else "failed")
            output = test.get("stdout", "") + test.get("stderr", "")
            single = [(f"{test['name']}: {name}", *rest) for name, *rest in inside.get(test["name"], [])]
            # A program that crashed after its last "ok" failed all the same.
            if not single or (end == "failed" and all(e != "failed" for _, e, _ in single)):
                single.append((f"{test['name']} ({test['result']})", end, reason(output)))
            failed = [name for name, e, _ in single if e == "failed"]
            failures += "".join("FAILED: %s\n" % name for name in failed)
            if failed:
                failures += said(output)
            skips += "".join("SKIPPED: %s: %s\n" % (name, why.strip() or reason(output))
                             for name, e, why in single if e == "skipped")
            ends += [e for _, e, _ in single]
    return ends, failures, skips


def main():
    status, logbase = int(sys.argv[1]), sys.argv[2]
    try:
        ends, failures, skips = count(logbase)
    except (OSError, ValueError, KeyError, ElementTree.ParseError) as error:
        ends, failures, skips = [], f"tally: {logbase}: {error}\n", ""
    failed = ends.count("failed")
    # Meson said no, or there was nothing to say yes to.
    if not failed and (status or not ends):
        failed = 1
        failures += f"FAILED: {logbase}: meson test ended with {status}, {len(ends)} tests\n"
    sys.stderr.write(failures)
    with open(sys.argv[3], "a", encoding="utf-8") as file:
        file.write(skips)
    print(ends.count("passed"), failed, ends.count("skipped"))


if __name__ == "__main__":
    main()
