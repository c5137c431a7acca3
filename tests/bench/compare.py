#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares what a pair of calls costs with two builds of the library, on the stand-in driver and PoCL.

Runs each program with the old library, the new library and the old library again, in turn, N
times, and prints the medians and their ratios. The second run of the old library is the control:
its ratio shows how far two runs of the same library lie apart on this machine. With
--instructions the script counts instructions per pair (valgrind's callgrind) instead, which do not
depend on what else the machine does. Run on demand; no test depends on it."""

import argparse
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

# Name, program, its arguments (PAIRS: the number of pairs, which else comes last), environment.
BENCHES = [
    ("tracked", "bench-pair", ["1", "20"], {}),
    ("traced", "bench-pair", ["1", "20"], {"GPULEAK_TRACE": "1MiB"}),
    ("tracked, in a range", "bench-pair", ["1", "20"], {"BENCH_RANGE": "1"}),
    ("tracked, no stacks", "bench-pair", ["1", "20"], {"GPULEAK_STACK_DEPTH": "0"}),
    ("tracked, both stacks at other addresses", "bench-pair", ["1", "20", "PAIRS", "0", "1"], {}),
    ("tracked, 2 threads", "bench-pair", ["2", "20"], {}),
    ("tracked, 16 threads", "bench-pair", ["16", "20"], {}),
    ("tracked, 40 frames at 8 places", "bench-sites", ["8", "40"], {}),
    ("pool strict", "bench-pair", ["1", "20"], {"GPULEAK_POOL": "strict"}),
    ("pool fast", "bench-pair", ["1", "20"], {"GPULEAK_POOL": "fast"}),
    ("pool fast, 40 frames at 8 places", "bench-sites", ["8", "40"], {"GPULEAK_POOL": "fast"}),
    ("tensor", "bench-tensor", ["20"], {}),
    ("tensor, in a range", "bench-tensor", ["20"], {"BENCH_RANGE": "1"}),
    ("tensor, no stacks", "bench-tensor", ["20"], {"GPULEAK_STACK_DEPTH": "0"}),
    ("launch", "bench-launch", ["looked-up", "1", "launch"], {}),
    ("launch, linked", "bench-launch", ["linked", "1", "launch"], {}),
    ("launch, guard patterns", "bench-launch", ["looked-up", "1", "launch"], {"GPULEAK_GUARD": "patterns"}),
    ("copy, guard copies", "bench-launch", ["looked-up", "1", "copy"], {"GPULEAK_GUARD": "copies"}),
    ("OpenCL pair", "bench-cl-pair", ["pair"], {}),
    ("OpenCL shared", "bench-cl-pair", ["shared"], {}),
    ("OpenCL pair, pool fast", "bench-cl-pair", ["pair"], {"GPULEAK_POOL": "fast"}),
]
PAIRS = {"bench-pair": 300000, "bench-launch": 5000000, "bench-sites": 100000, "bench-tensor": 300000,
         "bench-cl-pair": 60000}
FEW = 4000  # pairs of the shorter run that is counted


def run(programs, library, bench, pairs, tool=()):
    """Program and stand-in driver are the new build's in each run: only the library differs."""
    _, program, before, extra = bench
    env = {name: value for name, value in os.environ.items() if not name.startswith("GPULEAK_")}
    env.update(extra, GPULEAK_REPORT="none",
               LD_PRELOAD=os.path.join(library, "interpose", "libgpuleak.so"),
               LD_LIBRARY_PATH=os.path.join(programs, "standin", "driver"))
    command = [os.path.join(programs, "tests", "bench", program)]
    command += [str(pairs) if word == "PAIRS" else word for word in before]
    command += [] if "PAIRS" in before else [str(pairs)]
    return subprocess.run(list(tool) + command, env=env, capture_output=True, text=True, check=True)


def nanoseconds(programs, library, bench):
    """Runs a fresh copy of the library. Where the pages of the file lie in physical memory changes a
    pair by up to 20 % (Zen 4), and they stay there as long as the file is cached."""
    with tempfile.TemporaryDirectory(prefix="gpuleak-bench-") as folder:
        shutil.copytree(os.path.join(library, "interpose"), os.path.join(folder, "interpose"),
                        ignore=lambda _, names: set(names) - {"libgpuleak.so"})
        return float(run(programs, folder, bench, PAIRS[bench[1]]).stdout.split()[0])


def count(programs, library, bench, pairs):
    with tempfile.TemporaryDirectory(prefix="gpuleak-bench-") as folder:
        run(programs, library, bench, pairs, ["valgrind", "--tool=callgrind", "--separate-threads=yes",
                                              "--callgrind-out-file=%s/threads" % folder])
        threads = [int(number) for path in sorted(pathlib.Path(folder).iterdir())
                   for number in re.findall(r"^totals: (\d+)", path.read_text(), re.M)]
    # PoCL's threads run a different number of instructions in each run, so only the first one counts.
    return threads[0] if bench[1] == "bench-cl-pair" else sum(threads)


def instructions(programs, library, bench):
    return (count(programs, library, bench, 2 * FEW) - count(programs, library, bench, FEW)) / FEW


def print_row(name, old, new, control=None):
    row = "%-40s %9.1f %9.1f  %5.3f" % (name, old, new, new / old)
    if control is not None:
        row += "  %5.3f" % (control / old)
    print(row, flush=True)


def compare(args, bench):
    if args.instructions:
        print_row(bench[0], instructions(args.new, args.old, bench),
                  instructions(args.new, args.new, bench))
        return
    old, new, control = [], [], []
    for _ in range(args.turns):
        for build, into in ((args.old, old), (args.new, new), (args.old, control)):
            into.append(nanoseconds(args.new, build, bench))
    print_row(bench[0], statistics.median(old), statistics.median(new), statistics.median(control))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=os.path.abspath)
    parser.add_argument("new", type=os.path.abspath)
    parser.add_argument("--turns", type=int, default=31)
    parser.add_argument("--instructions", action="store_true")
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    if args.instructions:
        print("%-40s %9s %9s  %5s" % ("instructions per pair", "old", "new", "ratio"))
    else:
        print("%-40s %9s %9s  %5s  control" % ("ns per pair, median of %d" % args.turns, "old", "new",
                                                "ratio"))
    for bench in BENCHES:
        if args.only in bench[0]:
            compare(args, bench)
    return 0


if __name__ == "__main__":
    sys.exit(main())
