#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What being watched costs a process with many live blocks: pairs of cuMemAlloc and cuMemFree in a
second, with `gpuleak top` attached and without, in turn, and what a step takes.

    top_cost.py BUILD [BLOCKS [ROUNDS [DRIVER_DIRECTORY]]]

A round is a window without top, one with it, one with it, one without: a machine that gets slower or
faster meanwhile does so for both. Of the clock's figures and the processor's: the latter do not
count what other programs take. DRIVER_DIRECTORY: where another libcuda.so.1 is, "" for the system's."""

import os
import statistics
import subprocess
import sys

WINDOW_MS = 500
INTERVALS = {"1": 3000, "0.1": 500}  # between frames, in s: window that holds some of them, in ms


def median(values):
    return statistics.median(values)


class Program:
    def __init__(self, build, blocks, driver):
        env = dict(os.environ, LD_PRELOAD=build + "/interpose/libgpuleak.so", GPULEAK_REPORT="none")
        env.pop("LD_LIBRARY_PATH", None)
        if driver:
            env["LD_LIBRARY_PATH"] = driver
        self.process = subprocess.Popen([build + "/tests/bench/bench-blocks", str(blocks), "serve"],
                                        env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.process.stdout.readline()

    def ask(self, line):
        self.process.stdin.write((line + "\n").encode())
        self.process.stdin.flush()
        return [float(word) for word in self.process.stdout.readline().split()]

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def watched(build, program, interval):
    top = subprocess.Popen([build + "/tools/gpuleak", "top", "--interval", interval,
                            str(program.process.pid)], stdout=subprocess.PIPE)
    for line in top.stdout:
        if line.startswith(b"gpuleak top"):
            break
    # What it prints is read by nobody, and fits the pipe.
    figures = program.ask("pairs %d" % INTERVALS[interval])
    top.terminate()
    top.communicate()
    return figures


def cost(build, program, rounds, interval):
    ratios = ([], [])
    for _ in range(rounds):
        pairs = "pairs %d" % INTERVALS[interval]
        without = [program.ask(pairs)]
        attached = [watched(build, program, interval) for _ in range(2)]
        without.append(program.ask(pairs))
        for which in range(2):
            ratios[which].append(sum(window[which] for window in attached)
                                 / sum(window[which] for window in without))
    return [100 * (1 - median(values)) for values in ratios]


def main():
    build = os.path.realpath(sys.argv[1])
    blocks = int(sys.argv[2]) if len(sys.argv) > 2 else 100000
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 10
    driver = sys.argv[4] if len(sys.argv) > 4 else build + "/standin/driver"
    program = Program(build, blocks, driver)
    pairs = program.ask("pairs %d" % WINDOW_MS)
    print("%d live blocks, %.0f pairs a second unwatched; watched by `gpuleak top`, it loses (median of "
          "%d rounds):" % (blocks, pairs[0], rounds))
    for interval in INTERVALS:
        clock, processor = cost(build, program, rounds, interval)
        print("  a frame each %s s: %.2f %% by the clock, %.2f %% by the processor's time"
              % (interval, clock, processor))
    steps = [program.ask("step")[0] / 1e6 for _ in range(21)]
    print("gpuleak_step(): %.2f ms (median of %d)" % (median(steps), len(steps)))
    program.end()


main()
