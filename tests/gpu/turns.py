#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Times a program's loop bare, bare once more as a control, and in other ways: by default under a
preload with and without suballocations, else as WAYS in the environment names them, with commas.
One process of each kind makes a group. All processes run at the same time on one core and take short
turns, those of a group one right after the other, because what else the machine does changes the speed
by a fifth from second to second. Two processes of one kind differ by percents for as long as they live:
many groups with few turns say more than few groups with many. The size of each process's environment
and the order in which processes start are random. (When all groups started their processes in one
order, the second bare process was 0.5 % faster than the first, in ten of ten runs.) Prints the ratio of
each way's time to the bare times of its group's round, with a 95 % interval over groups. Does not
reject any ratio.

    turns.py LIBRARY GROUPS TURNS COMMAND...     COMMAND understands "turns" of timed.py"""

import json
import math
import os
import random
import statistics
import subprocess
import sys

CORE = max(os.sched_getaffinity(0))
BYPASSED = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}  # --bypass-pools sets GPULEAK_GUARD_WAIT=0, too
WAYS = {  # of each: its environment, where LIBRARY stands for the library
    "bare": {},
    "bare again": {},
    "gpuleak": {"LD_PRELOAD": "LIBRARY"},
    "suballocations off": {"LD_PRELOAD": "LIBRARY", "GPULEAK_SUBALLOCATIONS": "off"},
    "trace": {"LD_PRELOAD": "LIBRARY", "GPULEAK_TRACE": "64MiB"},
    "copies": {"LD_PRELOAD": "LIBRARY", "GPULEAK_GUARD": "copies"},
    "bypassed no gpuleak": BYPASSED,
    "bypassed all levels": dict(BYPASSED, LD_PRELOAD="LIBRARY", GPULEAK_GUARD_WAIT="0",
                                GPULEAK_GUARD="copies,patterns,pages"),
    "bypassed patterns": dict(BYPASSED, LD_PRELOAD="LIBRARY", GPULEAK_GUARD_WAIT="0",
                              GPULEAK_GUARD="patterns"),
    "bypassed waiting": dict(BYPASSED, LD_PRELOAD="LIBRARY", GPULEAK_GUARD="copies,patterns,pages"),
    "prepared": {"LD_PRELOAD": "LIBRARY", "GPULEAK_RECORD": "off"},
    "attached and detached": {},
}
WAYS = {name: WAYS[name] for name in os.environ.get(
    "WAYS", "bare,bare again,gpuleak,suballocations off").split(",")}


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


def attach(program, library):
    """Attaches to PROGRAM for as long as a turn takes, and two seconds at least."""
    gpuleak = os.path.join(os.path.dirname(library), os.pardir, "tools", "gpuleak")
    attached = subprocess.Popen([gpuleak, "attach", "--for", "2s", "--report", "none",
                                 str(program.pid)])
    ms_of_turn(program)
    if attached.wait():
        sys.exit("attach: status %d" % attached.returncode)


def start_groups(count, command, library):
    """Returns of each group {way: its process}."""
    groups = [{} for _ in range(count)]
    starts = [(group, way) for group in groups for way in WAYS]
    for group, way in random.sample(starts, len(starts)):
        group[way] = start(command, way, library)
    return groups


def take_round(group):
    """Lets each process of GROUP take a turn. Returns {way: ms}."""
    return {way: ms_of_turn(group[way]) for way in random.sample(list(WAYS), len(WAYS))}


def rounds_of(library, count, turns, command):
    """Returns of each group its rounds: [[{way: ms}]]."""
    groups = start_groups(count, command, library)
    programs = [program for group in groups for program in group.values()]
    for program in programs:
        if program.stdout.readline() != "ready\n":
            sys.exit("%s did not get ready" % command)
    for program in programs:
        keep_on_one_core(program)
        ms_of_turn(program)
    for group in groups:
        if "attached and detached" in group:
            attach(group["attached and detached"], library)
    rounds = [[] for _ in groups]
    for _ in range(turns):
        for number in random.sample(range(count), count):
            rounds[number].append(take_round(groups[number]))
    for program in programs:
        program.stdin.close()
        program.wait()
    return rounds


def ratio(way, turn):
    """Returns the ratio of WAY's time in TURN to the bare times; of the control, to the other one."""
    bare = turn["bare"] if way == "bare again" else math.sqrt(turn["bare"] * turn["bare again"])
    return turn[way] / bare


def with_interval(values):
    tries = sorted(statistics.median(random.choices(values, k=len(values))) for _ in range(2000))
    return "%.4f (95%%: %.4f-%.4f)" % (statistics.median(values), tries[50], tries[1950])


def main():
    library, count, turns, command = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
    rounds = rounds_of(library, count, turns, command)
    print(json.dumps(rounds), file=sys.stderr)
    print("bare: %.2f ms" % statistics.median(turn["bare"] for group in rounds for turn in group))
    for way in list(WAYS)[1:]:
        of_bare = [statistics.median(ratio(way, turn) for turn in group) for group in rounds]
        print("%s: %s of bare" % (way, with_interval(of_bare)))


if __name__ == "__main__":
    main()
