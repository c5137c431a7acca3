#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs tests of another project by pytest, bare and under all levels of the guard, each for at most
--limit seconds, and compares the result of each test that ran in both. Prints how many are equal,
those that are not, and what the guard found. Does not judge a finding: that is looked up by hand.

    guard_suite.py --command GPULEAK [--json FILE] [--limit S] ARGUMENTS of pytest..."""

import argparse
import collections
import json
import os
import re
import signal
import subprocess
import sys
import tempfile

RESULT = re.compile(r"^(\S+::.*?) (PASSED|FAILED|SKIPPED|ERROR|XFAIL|XPASS)\b")


def run(command, limit):
    """Returns {test: result} of what COMMAND printed until the limit, and its status."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", start_new_session=True) as process:
        try:
            out, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGINT)  # pytest ends, and gpuleak reports
            try:
                out, _ = process.communicate(timeout=30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                out, _ = process.communicate()
    found = (RESULT.match(line) for line in out.split("\n"))
    results = {match.group(1): match.group(2) for match in found if match}
    return results, process.returncode, out[-2000:]


def findings(path):
    try:
        with open(path, encoding="utf-8") as file:
            report = json.load(file)
    except (OSError, ValueError) as error:
        return [], "no report: %s" % error
    parts = report.get("processes", [report])
    return [error for part in parts for error in part["errors"]], parts[0].get("guard")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--command", required=True)
    parser.add_argument("--json")
    parser.add_argument("--limit", type=float, default=240)
    options, arguments = parser.parse_known_args()
    report = os.path.join(tempfile.mkdtemp(), "report.json")
    tests = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider"] + arguments
    bare, bare_status, bare_tail = run(tests, options.limit)
    guard, guard_status, tail = run(
        [options.command, "run", "--guard", "copies,patterns,pages", "--bypass-pools", "--format",
         "json", "--report", report, "--"] + tests, options.limit)
    both = sorted(set(bare) & set(guard))
    other = {name: (bare[name], guard[name]) for name in both if bare[name] != guard[name]}
    errors, coverage = findings(report)
    print("bare %d tests, status %s; guard %d tests, status %s" % (
        len(bare), bare_status, len(guard), guard_status))
    if not both:
        print(bare_tail[-300:], tail[-300:])
    print("same result: %d of %d; others: %s" % (len(both) - len(other), len(both),
                                                 list(other.items())[:5]))
    print("findings: %s; guard: %s" % (
        dict(collections.Counter(error["type"] for error in errors)), coverage))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"bare": collections.Counter(bare.values()),
                       "guard": collections.Counter(guard.values()), "other": other,
                       "errors": errors[:50], "coverage": coverage, "tail": tail}, file, indent=1)
    return 0 if both and not other and not errors else 1


sys.exit(main())
