#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares how long two builds take for a large report: the text report of a ledger of many live
blocks (each build reads its own ledger), and how long a browser loads the HTML page of many leaks.

    reports.py OLD_BUILD NEW_BUILD [--blocks N] [--leaks N] [--turns N]

Prints the median and the range of the wall time in ms, in turn with the old build as the control.
The page is the new build's only: a page is loaded when two frames are drawn after its event "load".
Run on demand, on a machine without other work; no test depends on it."""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "html"))

import browser as chromium


def milliseconds(work):
    start = time.monotonic()
    work()
    return (time.monotonic() - start) * 1e3


def show(name, times):
    print("%-52s %7.0f ms (%.0f-%.0f)" % (name, statistics.median(times), min(times), max(times)),
          flush=True)


def record(args, build, ledger):
    """Programs and the stand-in driver are the new build's."""
    env = {"PATH": os.environ["PATH"], "GPULEAK_REPORT": "none", "GPULEAK_LEDGER": ledger,
           "LD_LIBRARY_PATH": os.path.join(args.new, "standin", "driver"),
           "LD_PRELOAD": os.path.join(build, "interpose", "libgpuleak.so")}
    subprocess.run([os.path.join(args.new, "tests", "bench", "bench-blocks"), str(args.blocks)],
                   env=env, stdout=subprocess.DEVNULL, check=True)


def text_reports(args, place):
    times = {"old": [], "new": [], "old again": []}
    for build in (args.old, args.new):
        record(args, build, os.path.join(place, "%d.ledger" % (build == args.new)))
    for _ in range(args.turns):
        for name, of in times.items():
            build = args.new if name == "new" else args.old
            command = [os.path.join(build, "tools", "gpuleak"), "report",
                       os.path.join(place, "%d.ledger" % (build == args.new))]
            of.append(milliseconds(lambda: subprocess.run(command, stdout=subprocess.DEVNULL,
                                                          check=True)))
    for name, of in times.items():
        show("text report of %d live blocks, %s" % (args.blocks, name), of)


def page(args, place):
    subprocess.run([os.path.join(args.new, "tests", "html", "html-pages"), place, str(args.leaks)],
                   check=True)
    path = os.path.join(place, "many.html")
    with chromium.started(chromium.find()) as browser:
        times = []
        for _ in range(args.turns + 1):
            browser.open(os.path.join(place, "nothing.html"))
            times.append(milliseconds(lambda: browser.open(path)))
        show("page of %d leaks, %d bytes" % (args.leaks, os.path.getsize(path)), times[1:])


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=os.path.abspath)
    parser.add_argument("new", type=os.path.abspath)
    parser.add_argument("--blocks", type=int, default=10000000)
    parser.add_argument("--leaks", type=int, default=1500)
    parser.add_argument("--turns", type=int, default=11)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gpuleak-reports-") as place:
        page(args, place)
        text_reports(args, place)


if __name__ == "__main__":
    main()
