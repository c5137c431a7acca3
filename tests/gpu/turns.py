#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Times a program's loop bare, bare once more, and under a preload: the three run at the same time
on one core and take turns, so that only one works at any moment. What changes about the machine
meets all three alike. Prints what the second bare one and the preloaded one take, as a part of the
first: of each start the median over its turns, and of these the median, its 95 % interval, and the
lowest and highest. Judges nothing.

    turns.py LIBRARY STARTS TURNS COMMAND...        COMMAND understands "turns" of timed.py"""

import json
import os
import random
import statistics
import subprocess
import sys

CORE = max(os.sched_getaffinity(0))


def start(command, preload):
    env = dict(os.environ, GPULEAK_REPORT="none")
    if preload:
        env["LD_PRELOAD"] = preload
    return subprocess.Popen(command, env=env, text=True, bufsize=1, stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


def keep_on_one_core(program):
    for thread in os.listdir("/proc/%d/task" % program.pid):
        os.sched_setaffinity(int(thread), {CORE})


def ms_of_turn(program):
    program.stdin.write("\n")
    program.stdin.flush()
    return float(program.stdout.readline())


def ratios_of_start(library, turns, command):
    """Returns the medians of second/first and preloaded/first over the turns."""
    programs = [start(command, preload) for preload in (None, None, library)]
    for program in programs:
        if program.stdout.readline() != "ready\n":
            sys.exit("%s did not get ready" % command)
        keep_on_one_core(program)
        ms_of_turn(program)
    times = [[], [], []]
    for turn in range(turns):
        order = [0, 1, 2]
        random.shuffle(order)
        for which in order:
            times[which].append(ms_of_turn(programs[which]))
    for program in programs:
        program.stdin.close()
        program.wait()
    return [statistics.median(b / a for a, b in zip(times[0], others)) for others in times[1:]] + \
        [statistics.median(one) for one in times]


def summary(ratios):
    tries = sorted(statistics.median(random.choices(ratios, k=len(ratios))) for _ in range(2000))
    return "%.4f (95%%: %.4f-%.4f; %.4f-%.4f)" % (statistics.median(ratios), tries[50], tries[1950],
                                                  min(ratios), max(ratios))


def main():
    library, starts, turns, command = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
    rows = [ratios_of_start(library, turns, command) for _ in range(starts)]
    for row in rows:
        print(json.dumps([round(figure, 4) for figure in row]), file=sys.stderr)
    print("bare again %s, gpuleak %s of bare; %.2f ms bare; %d starts of %d turns" % (
        summary([row[0] for row in rows]), summary([row[1] for row in rows]),
        statistics.median(row[2] for row in rows), starts, turns))


main()
