#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Holds a report in JSON against what a program said of itself (its line "EXPECT {...}"):
every leak, every error, every number. Says what differs; status 1 if anything does.

expect.py REPORT OUTPUT [REPORT OUTPUT ...]       OUTPUT: a file with the program's EXPECT line
"""

import json
import os
import sys


def expectation(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = [line for line in file if line.startswith("EXPECT ")]
    if len(lines) != 1:
        raise ValueError("%s has %d EXPECT lines" % (path, len(lines)))
    return json.loads(lines[0][len("EXPECT "):])


def names(stack):
    return [(frame["function"] or "").partition("(")[0] for frame in stack]


def matches(wanted, got):
    """GOT: (stack, api, {field: value})"""
    stack, api, fields = got
    return (wanted["function"] in names(stack) and api in wanted["apis"].split()
            and all(wanted[key] == value for key, value in fields.items()))


def unlike(what, wanted, got, tell):
    got, problems = list(got), []
    for one in wanted:
        found = [other for other in got if matches(one, other)]
        if found:
            got.remove(found[0])
        else:
            problems.append("%s missing: %s" % (what, one))
    return problems + ["%s unexpected: %s" % (what, tell(other)) for other in got]


def tell(item):
    stack, api, fields = item
    return "%s %s in %s" % (api, fields, " < ".join(names(stack)[:4]))


def leaks_of(report):
    """One for each block: several of one call and stack stand together in a report."""
    for leak in report["leaks"]:
        size, rest = divmod(leak["bytes"], leak["blocks"])
        for _ in range(leak["blocks"]):
            yield leak["stack"], leak["api"], {
                "kind": leak["kind"], "device": leak["device"],
                "bytes": size if not rest else leak["bytes"]}


def errors_of(report):
    for error in report["errors"]:
        yield error["stack"], error["api"], {
            "type": error["type"],
            "bytes": error["allocated"]["bytes"] if error["allocated"] else 0}


def judge(report, wanted):
    problems = unlike("leak", wanted["leaks"], leaks_of(report), tell)
    problems += unlike("error", wanted["errors"], errors_of(report), tell)
    numbers = {key: value for key, value in wanted.items() if isinstance(value, int)}
    numbers.update(leaked_blocks=len(wanted["leaks"]), errors=len(wanted["errors"]),
                   leaked_bytes=sum(leak["bytes"] for leak in wanted["leaks"]))
    for key, value in numbers.items():
        if report["summary"].get(key) != value:
            problems.append("%s is %s, not %s" % (key, report["summary"].get(key), value))
    return problems + ["note: " + note for note in report["notes"]]


def main():
    if len(sys.argv) < 3 or len(sys.argv) % 2 == 0:
        print(__doc__, file=sys.stderr)
        return 2
    failed = False
    for report_path, output in zip(sys.argv[1::2], sys.argv[2::2]):
        try:
            with open(report_path, encoding="utf-8") as file:
                report = json.load(file)
            wanted = expectation(output)
            problems = judge(report, wanted)
            about = "%d leaks, %d errors" % (len(wanted["leaks"]), len(wanted["errors"]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            problems, about = ["%s: %s" % (type(error).__name__, error)], ""
        failed = failed or bool(problems)
        print("%s: %s" % (os.path.basename(report_path),
                          "DIFFERENT" if problems else "exactly as it must be, " + about))
        for problem in problems:
            print("   " + problem)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
