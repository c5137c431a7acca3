#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Times a program's loop bare, bare once more as a control, and under a preload with and without
suballocations. Several processes of each run at the same time on one core and take turns, so that
only one works at any moment: what changes about the machine meets all alike. The size of each
process's environment is random, because the layout of a process alone changes its speed by percents.
Prints the ratio of each way's time to the bare time, with a 95 % interval over processes. Does not
reject any ratio.

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


def times_of(library, processes, turns, command):
    """Returns [(way, [ms of each turn])] of all processes. Turn N of all of them is one round."""
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
    for _, program, _ in programs:
        program.stdin.close()
        program.wait()
    return [(way, times) for way, _, times in programs]


def is_bare(way):
    return not WAYS[way]


def ratios(all_times):
    """Divides each turn by the median of the bare turns of its round, so that a machine that is slow
    for some rounds changes the result less. Returns {way: [median ratio of each process]}."""
    rounds = zip(*(times for way, times in all_times if is_bare(way)))
    bare = [statistics.median(times) for times in rounds]
    ret = {way: [] for way in WAYS}
    for way, times in all_times:
        ret[way].append(statistics.median(ms / base for ms, base in zip(times, bare)))
    return ret


def with_interval(values):
    tries = sorted(statistics.median(random.choices(values, k=len(values))) for _ in range(2000))
    return "%.4f (95%%: %.4f-%.4f)" % (statistics.median(values), tries[50], tries[1950])


def main():
    library, processes, turns, command = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
    all_times = times_of(library, processes, turns, command)
    print(json.dumps(all_times), file=sys.stderr)
    of_bare = ratios(all_times)
    for way in WAYS:
        ms = statistics.median(statistics.median(times) for other, times in all_times if other == way)
        print("%s: %s of bare, %.2f ms" % (way, with_interval(of_bare[way]), ms))


main()
