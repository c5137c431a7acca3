#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What run.py makes of reports: only the right block in the first finding counts as found, and an
expected miss never does because of another block."""

import sys

sys.dont_write_bytecode = True
import planted
import run
from planted import ALL, COPY_FREED, DOUBLE, FAULT, WRITE


class Fake:
    """An API with one victim, one access and one free, and all errors of the CUDA runtime."""
    errors, own = planted.RUNTIME, True
    victim, access, free = {("p.c", 1)}, {("p.c", 2)}, {("p.c", 3)}


def finding(kind, line, suspects=()):
    def at(number):
        return {"stack": [{"file": "/p.c", "line": number}]}
    return {"type": kind, "stack": at(2)["stack"], "allocated": at(line), "freed": at(3),
            "other_suspects": [{"allocated": at(each)} for each in suspects]}


def verdict(name, level, *errors, status=23):
    outcome = run.Outcome(status, "", "", 0, {"errors": list(errors)})
    return run.judge_error(outcome, Fake, name, level)[0]


CASES = [
    ("the right block", verdict("over_16", "pages", finding(FAULT, 1)), "found"),
    ("another block", verdict("over_16", "pages", finding(FAULT, 9)), "WRONG BLOCK"),
    ("the right block as a further suspect",
     verdict("over_16", "pages", finding(FAULT, 9, [1])), "WRONG BLOCK"),
    ("another block first",
     verdict("over_16", "pages", finding(FAULT, 9), finding(FAULT, 1)), "WRONG BLOCK"),
    ("nothing", verdict("over_16", "pages", status=0), "MISSED"),
    ("a finding, and the gate passed", verdict("over_16", "pages", finding(FAULT, 1), status=0), "GATE PASSED"),
    ("another type", verdict("over_16", "pages", finding(COPY_FREED, 1)), "MISSED"),
    ("an address from memory, another block", verdict("indirect_over_16", "pages", finding(FAULT, 9)), "missed"),
    ("an address from memory, nothing", verdict("indirect_over_16", ALL, status=0), "missed"),
    ("an address from memory, patterns, another block",
     verdict("indirect_over_16", "patterns", finding(WRITE, 9)), "WRONG BLOCK"),
    ("a stale free, the freed block", verdict("stale_free", "pages", finding(DOUBLE, 1)), "found"),
    ("a stale free, the next block", verdict("stale_free", "pages", finding(DOUBLE, 9)), "MISSED"),
    ("a stale free with copies, the next block",
     verdict("stale_free", "copies", finding(COPY_FREED, 9)), "missed"),
]

print("1..%d" % len(CASES))
for number, (name, got, wanted) in enumerate(CASES, 1):
    print("%s %d - %s: %s%s" % ("ok" if got == wanted else "not ok", number, name, got,
                                "" if got == wanted else ", not " + wanted))
sys.exit(any(got != wanted for _, got, wanted in CASES))
