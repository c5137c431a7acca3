#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Times a program's loop bare, bare once more as a control, and under a preload with and without
suballocations. Several processes of each run at the same time on one core and take turns, so that
only one works at any moment: what changes about the machine meets all alike. The size of each
process's environment is random, because the layout of a process alone changes its speed by percents.
Prints the medians as parts of that of all bare processes, with 95 % intervals over processes. Judges
nothing.

    turns.py LIBRARY PROCESSES TURNS COMMAND...     COMMAND understands "turns" of timed.py"""

import json
import os
import random
import statistics
import subprocess
import sys

CORE = max(os.sched_getaffinity(0))
WAYS = {  # of each: its environment, where LIBRARY stands for the library
    "bare": {},
    "bare again": {},
    "gpuleak": {"LD_PRELOAD": "LIBRARY"},
    "suballocations off": {"LD_PRELOAD": "LIBRARY", "GPULEAK_SUBALLOCATIONS": "off"},
}


def start(command, way, library):
    env = dict(os.environ, GPULEAK_REPORT="none", PADDING="x" * random.randrange(4096))
    for name, value in WAYS[way].items():
        env[name] = library if value == "LIBRARY" else value
    return subprocess.Popen(command, env=env, text=True, bufsize=1, stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


def keep_on_one_core(program):
    for thread in os.listdir("/proc/%d/task" % program.pid):
        os.sched_setaffinity(int(thread), {CORE})


def ms_of_turn(program):
    program.stdin.write("\n")
    program.stdin.flush()
    return float(program.stdout.readline())


def medians(library, processes, turns, command):
    """Returns {way: [median ms of each process]}."""
    programs = [(way, start(command, way, library), []) for way in list(WAYS) * processes]
    for _, program, _ in programs:
        if program.stdout.readline() != "ready\n":
            sys.exit("%s did not get ready" % command)
    for _, program, _ in programs:
        keep_on_one_core(program)
        ms_of_turn(program)
    for _ in range(turns):
        for _, program, times in random.sample(programs, len(programs)):
            times.append(ms_of_turn(program))
    ret = {way: [] for way in WAYS}
    for way, program, times in programs:
        program.stdin.close()
        program.wait()
        ret[way].append(statistics.median(times))
    return ret


def ratio(others, bare):
    def one_of(pick):
        return statistics.median(pick(others)) / statistics.median(pick(bare))

    tries = sorted(one_of(lambda times: random.choices(times, k=len(times))) for _ in range(2000))
    return "%.4f (95%%: %.4f-%.4f)" % (one_of(lambda times: times), tries[50], tries[1950])


def main():
    library, processes, turns, command = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
    times = medians(library, processes, turns, command)
    print(json.dumps(times), file=sys.stderr)
    bare = times["bare"] + times["bare again"]
    for way in WAYS:
        print("%s: %s of bare, %.2f ms" % (way, ratio(times[way], bare), statistics.median(times[way])))


main()
