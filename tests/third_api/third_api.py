#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A third API is a folder and one line: third_api.py SOURCE LIBRARY COMMAND PROGRAM CUDA.
Prints TAP.

Runs a program on a driver of 102 calls (toy.h) with a libgpuleak.so that has a folder for it, and
compares the whole report."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

SOURCE, LIBRARY, COMMAND, PROGRAM, CUDA = (os.path.abspath(arg) for arg in sys.argv[1:6])


def run(story, **options):
    """What the program printed, and the report on it: as an object, and as text."""
    with tempfile.TemporaryDirectory() as place:
        ledger = os.path.join(place, "ledger")
        env = {name: value for name, value in os.environ.items()
               if not name.startswith("GPULEAK_")}
        env.update(LD_PRELOAD=LIBRARY, GPULEAK_REPORT="none", GPULEAK_LEDGER=ledger, HOME=place,
                   LD_LIBRARY_PATH=os.path.dirname(CUDA),
                   **{"GPULEAK_" + name: value for name, value in options.items()})
        ran = subprocess.run([PROGRAM, story], env=env, capture_output=True, text=True, check=True)
        answers = [subprocess.run([COMMAND, "report", *more, ledger], capture_output=True,
                                  text=True, check=False).stdout
                   for more in (["--format", "json"], ["-v"])]
        gate = subprocess.run([COMMAND, "check", ledger], capture_output=True, check=False)
        if not answers[0]:
            raise AssertionError(f"no report of {story}: {ran.stderr}")
        return ran.stdout + ran.stderr, json.loads(answers[0]), answers[1], gate.returncode


def function_of(stack):
    return next((frame["function"] for frame in stack if frame["function"]), None)


def facts(report):
    summary = report["summary"]
    return {
        "sums": [summary[key] for key in ("allocated_blocks", "freed_blocks", "leaked_blocks",
                                          "leaked_bytes", "errors")],
        "leaks": [(leak["api"], leak["kind"], leak["device"], leak["bytes"], leak["blocks"],
                   function_of(leak["stack"])) for leak in report["leaks"]],
        "errors": [(error["type"], error["api"], function_of(error["stack"]),
                    function_of(error["allocated"]["stack"]), function_of(error["freed"]["stack"]))
                   for error in report["errors"]],
    }


def left(report):
    return sorted((row["api"], row["kind"], row["count"]) for row in report["objects"])


LEAKS = {
    "sums": [3, 1, 2, 3000, 0],
    "leaks": [("toyAllocManaged", "managed", 0, 2000, 1, "leak"),
              ("toyAlloc", "device", 0, 1000, 1, "leak")],
    "errors": [],
}


def leak_of(**options):
    printed, report, text, status = run("leak", **options)
    lines = [line for line in text.splitlines() if re.match("Leak of|coverage:", line)]
    return [(printed, ""), (facts(report), LEAKS), (status, 23), (lines, [
        "Leak of 2,000 bytes (1.9 KiB) in 1 block (managed memory, toyAllocManaged, device 0), "
        "allocated at:",
        "Leak of 1000 bytes in 1 block (device memory, toyAlloc, device 0), allocated at:",
        "coverage: Toy intercepted via linked calls"])]


def leak():
    """a leak of each kind, with its stack; one block was freed"""
    return leak_of()


def leak_with_pool():
    """GPULEAK_POOL changes no leak"""
    return leak_of(POOL="fast")


def pool():
    """the API's pool reuses a block, gives one back, and is counted"""
    printed, report, _, _ = run("pool", POOL="fast")
    pools = [[row[key] for key in ("api", "kind", "device", "hits", "frees", "cached_bytes")]
             for row in report["pool"]["pools"]]
    return [(printed, "1 0 100 1\n"), (facts(report)["sums"], [3, 2, 1, 100, 0]),
            (pools, [["Toy", "device", 0, 1, 2, 0]])]


def objects():
    """objects, a context and memory with a handle, in spaces of the API"""
    printed, report, _, _ = run("objects")
    return [(printed, "100\n"), (left(report), [("toyStreamCreate", "stream", 1)]),
            (facts(report)["leaks"], [("toyImageCreate", "array", 0, 500, 1, "make_objects")])]


def both():
    """equal handles of two APIs are two objects, device 0 of two APIs is two memories"""
    printed, report, _, _ = run("both")
    peak = report["peak"]
    return [(printed, "0 1\n"),
            (left(report), [("cuDevicePrimaryCtxRetain", "primary-context", 1),
                            ("cuStreamCreate", "stream", 1), ("toyStreamCreate", "stream", 1)]),
            ([(memory["device"], memory["bytes"]) for memory in [peak, *peak["others"]]],
             [(0, 3000), (0, 1000)])]


def double():
    """a double free"""
    printed, report, _, status = run("double")
    return [(printed, "1\n"), (status, 23), (facts(report), {
        "sums": [1, 1, 0, 0, 1], "leaks": [],
        "errors": [("double-free", "toyFree", "free_twice", "free_twice", "free_twice")]})]


def limit():
    """a limit of half the device: refused, and room again after a free"""
    printed, report, _, _ = run("limit", LIMIT="50%")
    pool = report["pool"]
    return [(printed, "0 2 0\n"), (facts(report)["sums"], [2, 2, 0, 0, 0]),
            ((pool["limit_bytes"], pool["refused"], pool["first_refused"]["api"]),
             (5000, 1, "toyAllocManaged"))]


def context():
    """a context ends its block: no leak, but a finding with both places"""
    printed, report, _, status = run("context")
    ended = [(block["api"], block["bytes"], block["blocks"], function_of(block["stack"]),
              block["ended"]["api"], function_of(block["ended"]["stack"]))
             for block in report["ended_with_context"]]
    return [(printed, ""), (status, 23), (facts(report), {"sums": [1, 0, 0, 0, 0], "leaks": [],
                                                          "errors": []}),
            (ended, [("toyAlloc", 300, 1, "destroy", "toyContextDestroy", "destroy")])]


def lookup():
    """dlsym() gives out the wrapper"""
    _, report, _, _ = run("lookup")
    return [(facts(report)["leaks"], [("toyAlloc", "device", 0, 400, 1, "look_up")])]


def names():
    """functions without a row are classified by the API's two files of names"""
    printed, report, text, _ = run("names")
    coverage = report["coverage"]
    return [(printed, "1110"),
            ({kind: [seen["symbol"] for seen in coverage[kind]]
              for kind in ("untracked", "unclassed")},
             {"untracked": ["toyImport"], "unclassed": ["toyNewer"]}),
            ("toyImport: imported memory is not followed" in text, True)]


def one_line():
    """the list of APIs has one line more than the product's, and nothing names the API"""
    path = "interpose/dispatch/apis.def"
    here = pathlib.Path(__file__).parent
    lists = [re.findall(r"^#include .*", (root / path).read_text(), re.M)
             for root in (pathlib.Path(SOURCE), here)]
    named = [str(file) for folder in ("interpose", "ledger", "report", "tools")
             for file in sorted((pathlib.Path(SOURCE) / folder).rglob("*.[chd]*"))
             if file.is_file() and re.search(r"\bTOY|\btoy[A-Z]", file.read_text(errors="replace"))]
    rows = sum(len(re.findall(r"^(?:HOOK|HAND)\(", file.read_text(), re.M))
               for file in (here / "interpose/toy").glob("*.def"))
    return [(lists[1][:-1], lists[0]), (rows >= 100, True), (lists[1][-1:], ['#include "interpose/toy/toy_rows.def"']),
            (named, [])]


CASES = [leak, leak_with_pool, pool, objects, both, double, limit, context, lookup, names, one_line]


def main():
    failed = 0
    print(f"1..{len(CASES)}")
    for number, case in enumerate(CASES, 1):
        try:
            wrong = [(got, wanted) for got, wanted in case() if got != wanted]
        except (AssertionError, KeyError, TypeError) as error:
            wrong = [(str(error), "a report")]
        for got, wanted in wrong:
            print(f"# got {got!r}\n# not {wanted!r}")
        print(f"{'not ' if wrong else ''}ok {number} - {case.__doc__}")
        failed += bool(wrong)
    return failed > 0


sys.exit(main())
