# SPDX-License-Identifier: MIT
"""The pool as its users meet it: reports, `gpuleak top`, gpuleak.h, the signal. What it does to
memory is tested elsewhere."""

import os
import re
import sys

from cases_top import Holder, once, words
from harness import HERE, compare

PROGRAM = "pool_api"


def story(place, name, status=0, **env):
    """stdout in lines, and what stderr says besides reports."""
    run = place.run([place.program(PROGRAM), name], {
        "LD_PRELOAD": place.options.library, "GPULEAK_REPORT": "none", **env})
    compare("status", status, run.status)
    return run.stdout.split("\n")[:-1], run.stderr


def absent(place):
    """pool: gpuleak.h in a program that is not preloaded, and in one that is"""
    run = place.run([place.program(PROGRAM), "absent"])
    compare("without gpuleak", (0, "0 0\n"), (run.status, run.stdout))
    compare("with it", ["1 1"], story(place, "absent")[0])
    place.nothing_left()


def no_pool(place):
    """pool: gpuleak.h where no pool is on"""
    wanted = ["before: No data available", "freed: No data available", "trimmed 0 errno kept",
              "trimmed: No data available", "again 0", "reused: No data available"]
    compare("off", (wanted, ""), story(place, "give-back"))
    compare("off", (wanted, ""), story(place, "give-back", GPULEAK_POOL="off"))


def limit_alone(place):
    """pool: gpuleak.h where only a limit is on"""
    none = "mode 0 off 0 used 0 cached 0 pending 0 reserved 0 hits 0 native 0 errno 0"
    compare("limit", ["before: No data available", "freed: " + none, "trimmed 0 errno kept",
                      "trimmed: " + none, "again 0", "reused: " + none],
            story(place, "give-back", GPULEAK_LIMIT="1GiB")[0])


def wrong(place):
    """pool: gpuleak_pool_stats with a size that was not set, NULL, and a larger struct"""
    compare("answers", ["short: -1 Invalid argument", "NULL: -1 Invalid argument",
                        "unset: -1 Invalid argument", "larger: 0 Success", "known 1 later 0"],
            story(place, "wrong", GPULEAK_POOL="strict")[0])


def signal_taken(place):
    """pool: GPULEAK_POOL_SIGNAL leaves a signal to an application that handles it"""
    out, err = story(place, "handled", GPULEAK_POOL="fast", GPULEAK_POOL_SIGNAL="10")
    compare("stdout", ["caught 10"], out)
    compare("stderr", "gpuleak: GPULEAK_POOL_SIGNAL: signal 10 is handled or ignored by the "
            "application, and stays so: the pool gives nothing back at it\n", err)
    out, err = story(place, "handled-later", GPULEAK_POOL="fast", GPULEAK_POOL_SIGNAL="10")
    compare("installed later", (["ours 1 restarts 1", "caught 10"], ""), (out, err))


def signal_unusable(place):
    """pool: GPULEAK_POOL_SIGNAL with signals that can't be used, and without a pool"""
    for number, pool, why in ((9, "fast", "can't be used"), (11, "strict", "can't be used"),
                              (32, "fast", "can't be used"),
                              (10, "off", "keeps its effect, since no pool is on")):
        out, err = story(place, "absent", GPULEAK_POOL=pool, GPULEAK_POOL_SIGNAL=str(number))
        compare("no GPU call", (["1 1"], ""), (out, err))
        _, err = story(place, "wrong", GPULEAK_POOL=pool, GPULEAK_POOL_SIGNAL=str(number))
        compare("signal %d" % number, "gpuleak: GPULEAK_POOL_SIGNAL: signal %d %s: the pool gives "
                "nothing back at it\n" % (number, why), err)
    compare("bad value", True, "GPULEAK_POOL_SIGNAL: bad value" in story(
        place, "wrong", GPULEAK_POOL="fast", GPULEAK_POOL_SIGNAL="65")[1])


POOL = [absent, no_pool, limit_alone, wrong, signal_taken, signal_unusable]
