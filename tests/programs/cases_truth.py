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
    "slabs for large blocks": {"GPULEAK_POOL": "fast", "GPULEAK_POOL_SLAB": "64MiB"},
    "memory taken ahead": {"GPULEAK_POOL": "fast", "GPULEAK_POOL_PREALLOC": "64MiB"},
}
GUARDED = {
    "patterns, nothing held back": {"GPULEAK_POOL": "off", "GPULEAK_GUARD": "patterns",
                                    "GPULEAK_GUARD_HOLD": "0", "STANDIN_ASYNC": "7"},
    "patterns": {"GPULEAK_POOL": "off", "GPULEAK_GUARD": "patterns", "STANDIN_ASYNC": "7"},
}


def told(report):
    """The report but for addresses, and for who had one before: which is handed out again is
    the driver's choice or the pool's."""
    for error in report["errors"]:
        error.pop("earlier", None)
        error.pop("culprit_candidate", None)
    return re.sub(r"0x[0-9a-f]+", "ADDRESS",
                  repr({name: report[name] for name in ("summary", "leaks", "errors")}))


def calls(place, log):
    """How often the driver was asked for memory."""
    return sum(line.split()[1] == "cuMemAlloc_v2" for line in place.read(log).splitlines())


def same(name, variables, *arguments):
    @needs("truth")
    def story(place):
        argv = [place.program("truth"), *arguments]
        plain = {key: value for key, value in variables.items() if key.startswith("STANDIN")}
        bare = place.run(argv, {**plain, "STANDIN_LOG": place.file("bare.log")})
        place.preloaded(argv, reporting(place, **plain))
        without = told(place.json("report.json"))
        run = place.preloaded(argv, reporting(place, STANDIN_LOG=place.file("log"), **variables))
        compare("status and stderr", (0, ""), (run.status, run.stderr))
        compare("stdout", bare.stdout.splitlines(), run.stdout.splitlines())
        compare("the report", without, told(place.json("report.json")))
        # The guard hands out again what it does not hold back.
        compare("memory was used again",
                variables["GPULEAK_POOL"] != "off" or variables.get("GPULEAK_GUARD_HOLD") == "0",
                calls(place, "log") < calls(place, "bare.log"))
        place.nothing_left()
    story.__doc__ = "a pool changes no answer: " + name
    return story


@needs("truth")
def refused(place):
    """a part of a slab has no handle, and no parts are made once one is wanted"""
    run = place.preloaded([place.program("truth"), "refused"],
                          reporting(place, **IN_PARTS["slabs"]))
    compare("status and stderr", (0, ""), (run.status, run.stderr))
    compare("stdout", ["capable: 0 0", "handle: 801", "tokens: 801", "capable: 0 1", "handle: 0",
                       "free: 0 0", "free again: 1 1"], run.stdout.splitlines())
    place.nothing_left()


TRUTH = [
    same("off", {"GPULEAK_POOL": "off"}),
    *(same(name, variables) for name, variables in POOLS.items()),
    *(same(name, variables, "parts") for name, variables in IN_PARTS.items()),
    *(same(name, variables, "parts") for name, variables in GUARDED.items()),
    refused,
]
