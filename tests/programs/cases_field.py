# SPDX-License-Identifier: MIT
"""What is known to trip interposers up in the field and no other family of cases shows; the
whole list, with the test of each, is tests/field.md."""

import ctypes.util
import os
import re
import sys

from harness import Call, Case, End, Leak, compare
from stories import needs, reporting, reports_by_pid

ALLOC = "cuMemAlloc_v2"
HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.join(HERE, "..", "..")


# ---- whose function a resolver hands out ----

def read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


def tracked(*but):
    """All symbols of CUDA that have a row, in BUT these files."""
    names = re.findall(r'#include "interpose/(\w+/\w+\.def)"', read("interpose", "cuda/cuda_rows.def"))
    names = [name for name in names if os.path.basename(name) not in but]
    return {symbol + suffix for name in names
            for twin, symbol in re.findall(r"^(?:HOOK|HAND)(_PTSZ|_PTDS)?\(\s*(cu[A-Z]\w+)",
                                           read("interpose", name), re.M)
            for suffix in {"", twin.lower()}}


LAUNCH = "cuLaunchKernel:4000:0 "
COPY = "cuMemcpyAsync:4000:0 "


def owners_of(place, rows, **variables):
    asked = re.findall(r"^FOUND\((\w+), (\d+), (\w+), (\d)\)",
                       read("standin", "driver", "resolver.def"), re.M)
    wanted, argv = [], []
    for base, since, symbol, per_thread in asked:
        argv.append("%s:%s:%d" % (base, since, 2 * int(per_thread)))
        wanted.append("%s %s" % (argv[-1], "libgpuleak.so" if symbol in rows else "libcuda.so.1"))
    run = place.preloaded([place.program("owners"), *argv], reporting(place, **variables))
    compare("status and stderr", (0, ""), (run.status, run.stderr))
    compare("owners", wanted, run.stdout.splitlines())
    ours = sum(line.endswith("libgpuleak.so") for line in wanted)
    compare("both sorts are there", True, 40 < ours < len(wanted) - 200)
    return wanted


@needs("owners")
def owners(place):
    """every function that a resolver hands out: ours if it has a row, the driver's own if not"""
    wanted = owners_of(place, tracked("cuda_submits.def", "cuda_queries.def", "cuda_waits.def"))
    compare("a launch is ours", True, LAUNCH + "libgpuleak.so" in wanted)
    compare("a copy is the driver's own", True, COPY + "libcuda.so.1" in wanted)


@needs("owners")
def owners_with_pool(place):
    """the same with a pool, which sees what is submitted and asked"""
    wanted = owners_of(place, tracked("cuda_waits.def"), GPULEAK_POOL="fast")
    compare("a copy is ours", True, COPY + "libgpuleak.so" in wanted)


@needs("owners")
def owners_with_guard(place):
    """the same with a guard, which also sees waits"""
    wanted = owners_of(place, tracked(), GPULEAK_GUARD="copies,patterns,pages")
    compare("a copy is ours", True, COPY + "libgpuleak.so" in wanted)


# ---- a reset, and on in the same context ----

ENDED = Call("cuDevicePrimaryCtxReset_v2", ["main@reset"])
RESET = Case("reset, and on in the same context", "reset",
             stdout="dead: 709\nsame handle: 1\n",
             allocated=(7, 30001 + 30002 + 1000 + 2000 + 4000 + 5000), freed=2,
             peak=30001 + 30002 + 4000 + 5000, with_context=(2, 3000),
             ends=[End(Leak(ALLOC, 1000, ["allocate@allocate", "main@ends"]), ENDED),
                   End(Leak("cuMemAllocHost_v2", 2000, ["main@host"], kind="pinned"), ENDED)],
             leaks=[Leak("cuMemAllocFromPoolAsync", 30002, ["from_pool@from_pool", "main@lost"],
                         kind="stream-ordered"),
                    Leak(ALLOC, 4000, ["allocate@allocate", "main@after"]),
                    Leak("cuMemPoolCreate", 0, ["main@pool"], kind="mempool")])


# ---- other allocators and tracers beside us ----

FAMILIES = Case("", "families",
                allocated=(12, sum(range(10001, 10007)) + sum(range(20001, 20005)) + 2 * 4096),
                freed=7, peak=10001 + 10003 + 20001 + 20003 + 20004)
HEAPTRACK = "/usr/lib/heaptrack/libheaptrack_preload.so"


def library_path(name):
    """Of an installed library, or None."""
    return HEAPTRACK if name == "heaptrack" and os.path.exists(HEAPTRACK) \
        else ctypes.util.find_library(name)


def beside(name, order):
    def story(place):
        other = library_path(name)
        preload = [place.options.preload, other]
        if order == "second":
            preload.reverse()
        # heaptrack writes its own file where it is told to.
        env = {"DUMP_HEAPTRACK_OUTPUT": place.file("heap")}
        for program, stdout in (("families", ""), ("many", "held 30000\n"), ("threads", "done\n")):
            bare = place.run([place.program(program)], {"LD_PRELOAD": other, **env})
            run = place.run([place.program(program)], reporting(
                place, LD_PRELOAD=":".join(preload), **env))
            compare("status and stdout of " + program, (0, stdout), (run.status, run.stdout))
            compare("stderr of " + program, bare.stderr, run.stderr)
            numbers = place.json("report.json")["summary"]
            if program == "families":
                wanted = dict(FAMILIES.summary(), leaked_bytes=sum(LOST), keeps_bytes=sum(LOST),
                          leaked_blocks=len(LOST))
                compare("summary", wanted, numbers)
                compare("leaks", sorted(LOST), sorted(
                    leak["bytes"] for leak in place.json("report.json")["leaks"]))
            else:
                lost = {"many": (64, 1), "threads": (0, 0)}[program]
                compare("lost by " + program, lost,
                        (numbers["leaked_bytes"], numbers["leaked_blocks"]))
        if name == "heaptrack":
            compare("heaptrack did its own work", True, os.path.getsize(place.file("heap")) > 0)
        place.nothing_left()
    story.__doc__ = "beside %s, we are %s" % (name, order)
    story.probe = lambda options: None if library_path(name) else "no " + name
    return story


LOST = [10001, 10003, 20001, 20003, 4096]


# ---- Python's multiprocessing ----

def process_numbers(report):
    summary = report["summary"]
    return (summary["allocated_blocks"], summary["allocated_bytes"], summary["freed_blocks"],
            [(leak["api"], leak["bytes"], leak["blocks"]) for leak in report["leaks"]],
            report["errors"], report["notes"])


WORKER = (2, 3000, 1, [(ALLOC, 1000, 1)], [], [])
PARENT = (2, 7000, 1, [(ALLOC, 3000, 1)], [], [])


def pool(method, *more):
    def story(place):
        argv = [sys.executable, os.path.join(HERE, "processes.py"), method, *more]
        bare = place.run(argv)
        run = place.preloaded(argv, reporting(place, GPULEAK_REPORT=place.file("%p.json")))
        compare("without gpuleak", (0, "[True, True]\n", ""),
                (bare.status, bare.stdout, bare.stderr))
        compare("with it", (0, "[True, True]\n", ""), (run.status, run.stdout, run.stderr))
        reports = reports_by_pid(place)
        compare("the parent", PARENT, process_numbers(reports.pop(run.pid)))
        compare("the workers", [] if more else [WORKER, WORKER],
                [process_numbers(report) for report in reports.values()])
        place.nothing_left()
    story.__doc__ = "Python's multiprocessing by %s%s" % (
        method, ", " + more[0] if more else ": each process reports its own")
    return story


CASES = [
    owners, owners_with_pool, RESET,
    *(beside(name, order) for name in ("mimalloc", "heaptrack") for order in ("first", "second")),
    *(pool(method) for method in ("fork", "spawn", "forkserver")),
    pool("fork", "parent first"),
]
