#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs tests of Khronos' OpenCL-CTS, built elsewhere, bare and under the guard, one process for
each test and way, and compares what each prints as its results. Prints how many are equal, the others,
and each finding with its stacks. Does not judge a finding: that is looked up by hand. A second call
with the same FILE goes on behind the tests that it has.

    opencl_cts.py --command GPULEAK --json FILE [--limit S] [--seconds S] PROGRAM[=TEST,...]...

PROGRAM: test_conformance/buffers/test_buffers, ...; without tests all that its --help lists."""

import argparse
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time

import guard_suite

LEVELS = ["--guard", "copies,patterns"]
RESULT = re.compile(r"^\S+ (?:passed|failed|skipped)|^(?:PASS|FAIL|SKIP)", re.I)


def names_of(program):
    out = subprocess.run([program, "-h"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                         text=True, errors="replace", check=False).stdout
    return re.findall(r"^\t(\w+)$", out[out.rindex("Test names"):], re.M)


def execute(command, program, seconds):
    """Returns the status and the lines with results of COMMAND."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", timeout=seconds, cwd=os.path.dirname(program),
                              stdin=subprocess.DEVNULL, check=False)
    except subprocess.TimeoutExpired:
        return "time", []
    lines = [line.strip() for line in done.stdout.split("\n")
             if RESULT.search(line) and not line.startswith("gpuleak")]
    return done.returncode, lines


def one(options, program, name):
    """Returns the results of one test both ways, and its findings."""
    report = os.path.join(tempfile.mkdtemp(), "report.json")
    command = [program] + name.split()
    started = time.time()
    bare = execute(command, program, options.seconds)
    middle = time.time()
    guard = execute([options.command, "run"] + LEVELS + ["--format", "json", "--report", report,
                                                         "--"] + command, program,
                    2 * options.seconds)
    errors, coverage, missing = guard_suite.findings([report])
    return {"bare": bare, "guard": guard, "errors": errors, "coverage": coverage,
            "missing": bool(missing), "seconds": [middle - started, time.time() - middle]}


def tests_of(programs):
    for word in programs:
        program, _, names = word.partition("=")
        program = os.path.realpath(program)
        for name in names.split(",") if names else names_of(program):
            yield program, name


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--command", required=True)
    parser.add_argument("--json", required=True)
    parser.add_argument("--limit", type=float, default=170)
    parser.add_argument("--seconds", type=float, default=60, help="of a test without the guard")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("programs", nargs="+")
    options = parser.parse_args()
    options.command = os.path.realpath(options.command)
    until = time.time() + options.limit
    results, lock = {}, threading.Lock()
    if os.path.exists(options.json):
        with open(options.json, encoding="utf-8") as file:
            results = json.load(file)
    left = [(program, name) for program, name in tests_of(options.programs)
            if os.path.basename(program) + " " + name not in results]

    def work(pair):
        if time.time() < until:
            row = one(options, *pair)
            with lock:
                results[os.path.basename(pair[0]) + " " + pair[1]] = row
                with open(options.json + ".new", "w", encoding="utf-8") as file:
                    json.dump(results, file, indent=1)
                os.replace(options.json + ".new", options.json)

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(work, left))
    other = {name: row for name, row in results.items()
             if list(row["bare"]) != list(row["guard"])}
    errors = [dict(error, test=name) for name, row in results.items() for error in row["errors"]]
    print("%d tests of %d; same result: %d; passed bare: %d; no report: %s" % (
        len(results), len(results) + sum(1 for program, name in left if
                                         os.path.basename(program) + " " + name not in results),
        len(results) - len(other), sum(1 for row in results.values() if row["bare"][0] == 0),
        [name for name, row in results.items() if row["missing"]]))
    for name, row in other.items():
        print("  %s: bare %s, guard %s, %s s" % (name, row["bare"], row["guard"], row["seconds"]))
    for error, count in guard_suite.group(errors):
        print(guard_suite.describe(error, count))
    return 0 if results and not other and not errors else 1


if __name__ == "__main__":
    sys.exit(main())
