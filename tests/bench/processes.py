#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares what two builds cost short processes: each row in turn without gpuleak, with the old
build, the new build and the old build again.

    processes.py OLD_BUILD NEW_BUILD [--turns N] [--only TEXT] [--json FILE]

Prints for each row the median difference to the program without gpuleak (CPU time of the process
and its children, user and system, in ms), and the ratio of the differences. The second run of the
old build is the control. Run on demand, on a machine without other work; no test depends on it."""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys

FEW = 100  # processes under one `gpuleak run`


def cpu(command, env):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e3


def env_of(new, build=None, **more):
    """Programs and the stand-in driver are the new build's in each run."""
    env = {name: value for name, value in os.environ.items()
           if not name.startswith(("GPULEAK_", "LD_", "DEBUGINFOD_"))}
    env["LD_LIBRARY_PATH"] = os.path.join(new, "standin", "driver")
    if build:
        env.update(more, LD_PRELOAD=os.path.join(build, "interpose", "libgpuleak.so"))
    return env


def preloaded(command, **more):
    return lambda new, build: cpu([word.replace("{}", new) for word in command],
                                  env_of(new, build, **more))


def many(new, build):
    """One process of FEW under one `gpuleak run`, or of a shell's loop without it."""
    loop = ["sh", "-c", "i=0; while [ $i -lt %d ]; do %s; i=$((i + 1)); done"
            % (FEW, few[0].replace("{}", new))]
    before = [os.path.join(build, "tools", "gpuleak"), "run", "--"] if build else []
    return cpu(before + loop, env_of(new)) / FEW


few = ["{}/tests/bench/bench-few"]
ROWS = [
    ("clean process of 10 blocks, text report", preloaded(few)),
    ("the same with one leak with file and line", preloaded(few + ["1"])),
    ("the same, GPULEAK_REPORT=none", preloaded(few, GPULEAK_REPORT="none")),
    ("100 such processes under one gpuleak run, each", many),
    ("/bin/true under the preload", preloaded(["/bin/true"])),
]


def measure(args, row):
    times = {"bare": [], "old": [], "new": [], "control": []}
    for _ in range(args.turns):
        for name, build in (("bare", None), ("old", args.old), ("new", args.new), ("control", args.old)):
            times[name].append(row[1](args.new, build))
    bare = statistics.median(times["bare"])
    ret = {name: round(statistics.median(of) - bare, 3) for name, of in times.items() if name != "bare"}
    return dict(ret, row=row[0], bare=round(bare, 3), ratio=round(ret["new"] / ret["old"], 3))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=os.path.abspath)
    parser.add_argument("new", type=os.path.abspath)
    parser.add_argument("--turns", type=int, default=51)
    parser.add_argument("--only", default="")
    parser.add_argument("--json")
    args = parser.parse_args()
    print("%-48s %8s %8s %8s %8s %6s" % ("CPU ms, median of %d" % args.turns, "bare", "+old", "+new",
                                         "+control", "ratio"))
    rows = []
    for row in ROWS:
        if args.only not in row[0]:
            continue
        rows.append(measure(args, row))
        print("%(row)-48s %(bare)8.2f %(old)8.2f %(new)8.2f %(control)8.2f %(ratio)6.3f" % rows[-1],
              flush=True)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
