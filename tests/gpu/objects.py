#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""objects.py REPORT OUTPUT: compares what programs/objects.c printed with the report's counts, and
the memory that it saw by cuMemGetInfo with the report's costs: within 5 %, or 2 MiB if that is more."""

import json
import sys


CAUSES = {"stream": "stream", "context": "context", "green-context": "green context",
          "module": "module", "library": "library", "graph-exec": "graph"}


def wrong_costs(report, rows):
    wrong = []
    for row in rows:
        cause, seen = CAUSES.get(row[0]), int(row[4])
        got = sum(cost["bytes"] or 0 for cost in report["driver_costs"]
                  if cost["cause"] == cause and cost["api"] != "cuDevicePrimaryCtxRetain")
        if cause and abs(got - seen) > max(seen / 20, 2 << 20):
            wrong.append("%s: took %d bytes, reported %d" % (row[0], seen, got))
        if not cause and seen > 2 << 20:
            wrong.append("%s: took %d bytes, which no cause reports" % (row[0], seen))
    return wrong


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        report = json.load(file)
    counted = {item["kind"]: (item["created"], item["count"]) for item in report["object_kinds"]}
    # The program's own graph is destroyed; it has one more of these than it prints.
    counted["graph"] = (counted["graph"][0] - 1, counted["graph"][1])
    with open(sys.argv[2], encoding="utf-8") as file:
        rows = [line.split() for line in file if " result " in line]
    wrong = ["%s: made and left %s %s, counted %s" % (row[0], row[1], row[2], counted.get(row[0]))
             for row in rows
             if row[1] != "0" and counted.get(row[0]) != (int(row[1]), int(row[2]))]
    if report["summary"]["errors"] or not rows:
        wrong.append("%d errors, %d kinds" % (report["summary"]["errors"], len(rows)))
    wrong += wrong_costs(report, rows)
    print("; ".join(wrong) or "EQUAL for %d kinds" % len(rows))
    print(", ".join("%s %s: %.1f KiB each" % (row[1], row[0], int(row[4]) / 1024 / int(row[1]))
                    for row in rows if row[1] != "0"))
    return bool(wrong)


sys.exit(main())
