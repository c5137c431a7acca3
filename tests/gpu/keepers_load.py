#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs training programs under `gpuleak run --keepers` on a busy machine, and checks that the report
names the variable that keeps what accumulates. TAP, and a last line with the sums. Status 1 if fewer
than LEAST programs are right, or if something accumulates in a clean twin.

    keepers_load.py --gpuleak CMD --results DIR [--load 20] [--cores N] [--least 10] [--only TEXT]
                    [--no-clean] FOLDER

The second line of a program is "# keeper: TEXT": the text of a keeper must have TEXT. With the
argument "clean" the same program keeps nothing. LOAD processes that only compute run beside it. With
--cores, all processes run on the first N processors only."""

import argparse
import json
import os
import subprocess
import sys
import time

KEEPER = "# keeper: "
LIMIT = 580  # seconds for one program


def stated(path):
    """Returns what the report on a program must name, or None for another file."""
    with open(path, encoding="utf-8") as file:
        line = (file.read().split("\n") + [""])[1]
    return line[len(KEEPER):] if line.startswith(KEEPER) else None


def accumulating(path):
    """Returns the entries of the report at PATH that accumulate."""
    with open(path, encoding="utf-8") as file:
        report = json.load(file)
    return [entry for entry in report.get("suballocations", []) + report.get("leaks", [])
            if entry.get("trend") == "accumulating"]


def run(options, path, *arguments):
    """Runs a program. Returns the entries that accumulate, an error or "", and the seconds."""
    name = "-".join([os.path.basename(path)[:-3], *arguments])
    report, start = os.path.join(options.results, name + ".json"), time.monotonic()
    try:
        ran = subprocess.run([*options.gpuleak, "run", "--keepers", "--format", "json", "--report", report, "--",
                              sys.executable, path, *arguments],
                             capture_output=True, text=True, timeout=LIMIT, check=False)
    except subprocess.TimeoutExpired:
        return [], "did not end within %d s" % LIMIT, LIMIT
    seconds = time.monotonic() - start
    if ran.returncode or not os.path.exists(report):
        return [], "status %d: %s" % (ran.returncode, ran.stderr[-300:]), seconds
    return accumulating(report), "", seconds


def check_keeper(options, path, text):
    """Returns whether the report names TEXT, and words."""
    found, error, seconds = run(options, path)
    texts = [keeper["text"] for entry in found for keeper in entry.get("keepers", [])]
    named = next((one for one in texts if text in one), None)
    words = named or error or ("keepers: %s" % texts if texts else "%d lines accumulate, none has a keeper" % len(found))
    return bool(named), "%s, %.1f s: %s" % (os.path.basename(path), seconds, words)


def check_clean(options, path, _):
    """Returns whether nothing accumulates in the twin of a program, and words."""
    found, error, seconds = run(options, path, "clean")
    return not found and not error, "%s clean, %.1f s: %s" % (
        os.path.basename(path), seconds, error or "%d lines accumulate" % len(found))


# Ends with this process, also if that is killed.
BUSY = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    sum(range(10000))\n"


def busy(load):
    return [subprocess.Popen([sys.executable, "-S", "-c", BUSY]) for _ in range(load)]


def check_all(options, programs, check):
    right = 0
    for number, (path, text) in enumerate(programs, 1):
        is_right, words = check(options, path, text)
        right += is_right
        print("%s %d - %s" % ("ok" if is_right else "not ok", number, words), flush=True)
    return right


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpuleak", required=True, type=str.split)
    parser.add_argument("--results", required=True)
    parser.add_argument("--load", type=int, default=20)
    parser.add_argument("--cores", type=int, default=0)
    parser.add_argument("--least", type=int, default=10)
    parser.add_argument("--only", default="")
    parser.add_argument("--no-clean", action="store_true")
    parser.add_argument("folder")
    options = parser.parse_args()
    os.makedirs(options.results, exist_ok=True)
    if options.cores:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:options.cores])
    paths = [os.path.join(options.folder, name) for name in sorted(os.listdir(options.folder))
             if name.endswith(".py") and options.only in name]
    programs = [(path, stated(path)) for path in paths if stated(path)]
    burners = busy(options.load)
    try:
        named = check_all(options, programs, check_keeper)
    finally:
        for one in burners:
            one.kill()
            one.wait()
    twins = [] if options.no_clean else programs
    clean = check_all(options, twins, check_clean)
    print("%d of %d keepers named at load %d on %d processors, %s" % (
        named, len(programs), options.load, len(os.sched_getaffinity(0)),
        "%d of %d twins clean" % (clean, len(twins)) if twins else "no twin was run"))
    return named < min(options.least, len(programs)) or clean < len(twins)


if __name__ == "__main__":
    sys.exit(main())
