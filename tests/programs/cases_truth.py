# SPDX-License-Identifier: MIT
"""A pool changes no answer: what a driver says of blocks that are live, gone or others by now is
what it says without gpuleak, to the byte, and the report is that of the run without a pool."""

import re

from harness import compare
from stories import needs, reporting

POOLS = {
    "strict": {"GPULEAK_POOL": "strict"},
    "fast": {"GPULEAK_POOL": "fast"},
    "fast, on a busy device": {"GPULEAK_POOL": "fast", "STANDIN_ASYNC": "7"},
    "strict, on a busy device": {"GPULEAK_POOL": "strict", "STANDIN_ASYNC": "7"},
}
IN_PARTS = {
    "slabs": {"GPULEAK_POOL": "fast", "GPULEAK_POOL_SLAB": "1"},
    "slabs, strict": {"GPULEAK_POOL": "strict", "GPULEAK_POOL_SLAB": "1"},
    "memory taken ahead": {"GPULEAK_POOL": "fast", "GPULEAK_POOL_PREALLOC": "64MiB"},
}


def told(report):
    return {name: report[name] for name in ("summary", "leaks", "errors")}


def without_stacks_of_calls(report):
    """What is left when who calls from where is taken for granted: it is the same program."""
    return re.sub(r"0x[0-9a-f]+", "ADDRESS", repr(told(report)))


def same(name, variables, *arguments):
    @needs("truth")
    def story(place):
        argv = [place.program("truth"), *arguments]
        plain = {key: value for key, value in variables.items() if key.startswith("STANDIN")}
        bare = place.run(argv, plain)
        place.preloaded(argv, reporting(place, **plain))
        without = without_stacks_of_calls(place.json("report.json"))
        run = place.preloaded(argv, reporting(place, **variables))
        compare("status and stderr", (0, ""), (run.status, run.stderr))
        compare("stdout", bare.stdout.splitlines(), run.stdout.splitlines())
        compare("the report", without, without_stacks_of_calls(place.json("report.json")))
        place.nothing_left()
    story.__doc__ = "a pool changes no answer: " + name
    return story


TRUTH = [
    same("off", {"GPULEAK_POOL": "off"}),
    *(same(name, variables) for name, variables in POOLS.items()),
    *(same(name, variables, "parts") for name, variables in IN_PARTS.items()),
]
