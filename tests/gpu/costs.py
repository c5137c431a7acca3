#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""costs.py REPORT OUTPUT: compares what programs/driver_costs.c printed, by nvidia-smi before and
after each cause, with what the report says of the cause: within 5 %, or 4 MiB if that is more."""

import json
import sys

MIB = 1 << 20


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        report = json.load(file)
    with open(sys.argv[2], encoding="utf-8") as file:
        rows = [line.split() for line in file if len(line.split()) == 2]
    took, unmeasured, wrong = {}, [], not rows
    for cost in report["driver_costs"]:
        if cost["api"] == "cuDevicePrimaryCtxRetain": # before the program's first reading
            print("first context: reported %.1f MiB" % ((cost["bytes"] or 0) / MIB))
            wrong |= cost["bytes"] is None
            continue
        cause = cost["cause"].replace(" ", "_")
        took[cause] = took.get(cause, 0) + (cost["bytes"] or 0)
        if cost["measured_calls"] != cost["calls"]:
            unmeasured.append("%s %d of %d" % (cost["api"], cost["measured_calls"], cost["calls"]))
    for cause, seen in rows:
        got, want = took.get(cause, 0) / MIB, int(seen)
        same = abs(got - want) <= max(4, want / 20)
        wrong |= not same
        print("%s: nvidia-smi %d MiB, reported %.1f MiB: %s" % (
            cause, want, got, "EQUAL" if same else "DIFFERENT"))
    print("not measured: %s" % ("; ".join(unmeasured) or "none"))
    for device in report.get("devices", []):
        print("explained %d MiB of %d MiB" % (device["explained_bytes"] // MIB,
                                              device["driver_bytes"] // MIB))
    return wrong


sys.exit(main())
