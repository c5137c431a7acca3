# SPDX-License-Identifier: MIT
"""OpenCL's pool: what it keeps and hands out, counted to the last call; what an application
can see of it, which is nothing but the time that it saves."""

from harness import compare
from stories import reporting

PROGRAM = "cl_pool"
MIB = 1 << 20


def pool_of(place, story, lines, counts, mode="fast", env=None):
    """STORY prints LINES, leaks nothing but what it never unmaps, and its pool says COUNTS."""
    run = place.preloaded([place.program(PROGRAM), story],
                          reporting(place, GPULEAK_POOL=mode, **(env or {})))
    compare("status", 0, run.status)
    compare("output", lines, run.stdout.splitlines())
    report = place.json("report.json")
    # What is mapped when it is released was released by the driver, which keeps it.
    mapped = counts.get("not_pooled", {}).get("mapped", 0)
    compare("leaks", [True] * mapped, ["mapped" in leak for leak in report["leaks"]])
    (pool,) = report["pool"]["pools"]
    compare("pool", counts, {key: pool[key] for key in counts})
    compare("whose", ("OpenCL", "cl-buffer", 0, mode),
            (pool["api"], pool["kind"], pool["device"], pool["mode"]))
    return report


def story(name, what, lines, modes=("fast",), env=None, then=None, **counts):
    """The modes run the same code here (opencl_pool.h): one story says that both are reported."""
    def one(mode):
        def check(place):
            report = pool_of(place, what, lines, counts, mode, env)
            if then:
                then(place, report)
        check.needs = PROGRAM
        check.__doc__ = "OpenCL pool: %s, %s" % (name, mode)
        return check
    return [one(mode) for mode in modes]


def twice(_place, report):
    (error,) = report["errors"]
    compare("error", ("double-free", "clReleaseMemObject", -38),
            (error["type"], error["api"], error["result"]))


def as_bare(place, report):
    bare = place.run([place.program(PROGRAM), "contexts"])
    compare("freed", 10, report["summary"]["freed_blocks"])
    compare("bare", ["callback 0", "first", "second", "the context has ended", "done"],
            bare.stdout.splitlines())


def one_at_a_time(_place, report):
    compare("peak", (4 * MIB, 7 * MIB),
            (report["summary"]["peak_bytes"], report["summary"]["allocated_bytes"]))


def served(_place, report):
    (pool,) = report["pool"]["pools"]
    compare("some were served", True, pool["hits"] > 100)
    compare("all are accounted for", (2000, 2001),
            (pool["hits"] + pool["native_allocations"], report["summary"]["freed_blocks"]))
    compare("each release", 2000, pool["frees"] + pool["native_frees"] - pool["trimmed_blocks"])


CL_POOL = [
    *story("one buffer for a hundred", "loop", [], modes=("fast", "strict"), hits=99,
           native_allocations=1, native_frees=0, frees=100, cached_bytes=MIB, reserved_bytes=MIB, peak_used_bytes=MIB, tickets=0,
           not_pooled={}),
    *story("by size and flags, to the byte", "idle", [], hits=196, native_allocations=4,
           frees=200, cached_bytes=4001, tickets=1),
    *story("what is left alone, by reason", "reasons", ["called 1"], hits=0, frees=0,
           native_allocations=4, native_frees=4, cached_bytes=0,
           not_pooled={"too_large": 1, "callback": 1, "host_pointer": 4, "sub_objects": 1,
                       "mapped": 1, "other_kind": 2}),
    *story("a kept handle is none", "again",
           ["references 1", "release -38", "retain -38", "info -38", "callback -38",
            "the same 1, references 1"], then=twice, hits=1, frees=2),
    *story("what commands may still write", "pending",
           ["in order: the same 0", "second queue: the same 0", "its queue gone: the same 0"],
           hits=0, native_allocations=4),
    *story("a context ends when it would", "contexts",
           ["callback 0", "first", "second", "the context has ended", "done"], then=as_bare,
           cached_bytes=0, reserved_bytes=0, frees=10),
    *story("the oldest go first", "bound",
           ["3: the same 1", "2: the same 1"],
           env={"GPULEAK_POOL_CACHE": "1MiB"}, hits=2, native_allocations=7, trimmed_blocks=4,
           cached_bytes=2 * (MIB // 2) - 5, not_pooled={"too_large": 1}),
    *story("a percentage of the device", "idle", [], env={"GPULEAK_POOL_CACHE": "10%"}, hits=196),
    *story("nothing may be kept", "idle", [], env={"GPULEAK_POOL_CACHE": "0"}, hits=0, frees=0,
           not_pooled={"too_large": 200}),
    *story("a release behind one that nobody asks for", "behind", [], then=one_at_a_time, hits=0,
           frees=3, not_pooled={}),
    *story("a hundred markers, each for a size of its own", "sizes", [], hits=0, frees=100,
           not_pooled={}),
    *story("four threads, four queues, every value right", "storm", ["wrong 0"], then=served),
]

FAMILIES = {"cl-pool": CL_POOL}
