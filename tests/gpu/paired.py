#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs a program that prints its own figure last, bare and under a preload in turn, on one
core; which goes first changes. Prints medians, quantiles and how sure the ratio is.

    paired.py LIBRARY PAIRS COMMAND...
"""
import os
import random
import statistics
import subprocess
import sys

library, pairs, command = sys.argv[1], int(sys.argv[2]), sys.argv[3:]


def once(preload):
    env = dict(os.environ, GPULEAK_REPORT="none")
    if preload:
        env["LD_PRELOAD"] = library
    run = subprocess.run(["taskset", "-c", "4"] + command, env=env, capture_output=True, text=True, check=True)
    return float(run.stdout.split()[-1])


def interval(estimate):
    tries = sorted(estimate() for _ in range(2000))
    return "%.4f (95%%: %.4f-%.4f)" % (tries[1000], tries[50], tries[1950])


bare, traced = [], []
for i in range(pairs):
    for preload in ((False, True) if i % 2 else (True, False)):
        (traced if preload else bare).append(once(preload))
ratios = [b / a for a, b in zip(bare, traced)]
median = statistics.median
print("bare %.2f (%.2f-%.2f), gpuleak %.2f (%.2f-%.2f), lowest/lowest %.4f, ratio of medians %s, median of paired ratios %s, %d pairs" % (
    median(bare), min(bare), max(bare), median(traced), min(traced), max(traced), min(traced) / min(bare),
    interval(lambda: median(random.choices(traced, k=pairs)) / median(random.choices(bare, k=pairs))),
    interval(lambda: median(random.choices(ratios, k=pairs))), pairs))
