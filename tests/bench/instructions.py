#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Counts the instructions of calls and reports with callgrind. Fails above a row's ceiling.

    instructions.py BUILD COMPILER      (such as GCC_12; a compiler without ceilings: skipped)

Unlike times, the counts repeat to 0.1 % also on a busy machine. After a deliberate rise, write the
new ceiling (2 % above the count) and the reason into the commit."""

import os
import re
import shutil
import subprocess
import sys
import tempfile

import compare

MUST_RUN = os.environ.get("GPULEAK_MUST_RUN")
# Meson's MALLOC_PERTURB_ and a long environment add instructions.
for variable in set(os.environ) - {"HOME", "PATH"}:
    del os.environ[variable]
build, compiler = os.path.abspath(sys.argv[1]), sys.argv[2]
library = os.path.join(build, "interpose", "libgpuleak.so")
few = [os.path.join(build, "tests", "bench", "bench-few")]


def callgrind(command, env):
    """Instructions of one process, its threads included and its children not."""
    with tempfile.TemporaryDirectory(prefix="gpuleak-bench-") as folder:
        done = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=%s/out" % folder] + command,
                              env=env, capture_output=True, text=True, check=False)
        found = re.search(r"Collected : (\d+)", done.stderr)
        if not found:
            raise RuntimeError("%s: %s" % (command, done.stderr))
        return int(found.group(1))


def plain_env(**more):
    return dict(os.environ, LD_LIBRARY_PATH=os.path.join(build, "standin", "driver"), **more)


def pair(name):
    """One pair of calls, by the row NAME of compare.py."""
    bench = next(bench for bench in compare.BENCHES if bench[0] == name)
    return lambda: compare.instructions(build, build, bench)


def process(command):
    """A whole process under the preload without its report, over the same process without it."""
    return lambda: (callgrind(command, plain_env(LD_PRELOAD=library, GPULEAK_REPORT="none")) -
                    callgrind(command, plain_env()))


def report(*arguments):
    """The text report on a process of 10 blocks, bench-few with ARGUMENTS."""
    def count():
        with tempfile.TemporaryDirectory(prefix="gpuleak-bench-") as folder:
            ledger = os.path.join(folder, "ledger")
            subprocess.run(few + list(arguments), check=True, capture_output=True, env=plain_env(
                LD_PRELOAD=library, GPULEAK_REPORT="none", GPULEAK_LEDGER=ledger))
            return callgrind([os.path.join(build, "tools", "gpuleak"), "report", "--at-exit", ledger],
                             plain_env(HOME=folder, TMPDIR=folder, XDG_RUNTIME_DIR=folder))
    return count


GCC_12 = "gcc 12.2.0 x86_64 debugoptimized none"
# Name, what counts it, the ceiling for each compiler.
ROWS = [
    ("pair, both stacks known", pair("tracked"), {GCC_12: 1920}),
    ("pair, in a range", pair("tracked, in a range"), {GCC_12: 2024}),
    ("pair, with a trace", pair("traced"), {GCC_12: 2206}),
    ("pair, both stacks known, at other addresses", pair("tracked, both stacks at other addresses"), {GCC_12: 3530}),
    ("pair, pool fast", pair("pool fast"), {GCC_12: 1830}),
    ("tensor, both stacks known", pair("tensor"), {GCC_12: 1017}),
    ("tensor, in a range", pair("tensor, in a range"), {GCC_12: 1108}),
    ("launch", pair("launch"), {GCC_12: 186}),
    ("launch, linked", pair("launch, linked"), {GCC_12: 190}),
    ("launch, guard patterns", pair("launch, guard patterns"), {GCC_12: 865}),
    ("copy, guard copies", pair("copy, guard copies"), {GCC_12: 1040}),
    ("OpenCL pair on PoCL, in the calling thread", pair("OpenCL pair"), {GCC_12: 3465}),
    ("process without a GPU call", process(["/bin/true"]), {GCC_12: 193000}),
    ("process of 10 blocks, no report", process(few), {GCC_12: 855000}),
    ("clean report on 10 blocks", report(), {GCC_12: 6250000}),
    ("report on 10 blocks, one of them leaked", report("1"), {GCC_12: 6250000}),
]


def main():
    rows = [(name, count, ceilings[compiler]) for name, count, ceilings in ROWS if compiler in ceilings]
    why = ("no valgrind" if not shutil.which("valgrind") else
           "no ceiling for %s" % compiler if not rows else "")
    if why:
        print("1..0 # SKIP " + why)
        return bool(MUST_RUN) and "valgrind" in why
    print("1..%d" % len(rows))
    failed = False
    for number, (name, count, ceiling) in enumerate(rows, 1):
        found = count()
        failed |= found > ceiling
        print("%s %d - %s: %s instructions, at most %s" % (
            "not ok" if found > ceiling else "ok", number, name, format(round(found), ","),
            format(ceiling, ",")), flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
