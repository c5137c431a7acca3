# SPDX-License-Identifier: MIT
"""The peak of each memory: who held it then, to the byte, although all of it was freed later."""

import json
import re
import signal

from harness import compare, deferred, frame_text, line_of
from stories import needs, reporting

MIB = 1 << 20
WEIGHTS = ["take@take", "weights@weights", "run@run", "main"]
WORKSPACE = ["take@take", "workspace@workspace", "run@run", "main"]
IN_THREAD = ["take@take", "workspace@workspace", "work"]
# 100 MiB of weights stay, 900 MiB of a workspace do not, and then there are a thousand small ones.
SOLVER = ("weights:100m", "workspace:900m", "free:1", "churn:1000:1m", "free:0")


def frames(stack):
    texts = [frame_text(frame, "peak.c") for frame in stack]
    return [text.split("@")[0] if text.startswith(("main@", "work@")) else text
            for text in texts if text]


def holders(peak):
    return [(holder["bytes"], holder["blocks"], frames(holder["stack"]))
            for holder in peak["holders"]]


def peak_of(place, *words, **env):
    """The peak of the JSON report of the program."""
    run = place.preloaded([place.program("peak"), *words], reporting(place, **env))
    compare("status, stdout and stderr", (0, "", ""), (run.status, run.stdout, run.stderr))
    return place.json("report.json")["peak"]


def figures(peak):
    return tuple(peak[key] for key in ("memory", "device", "bytes", "error_bytes"))


def expect(place, words, wanted, text="holders", **env):
    """The peak of the only memory is that of the WANTED holders, exactly."""
    peak = peak_of(place, *words, **env)
    compare("figures of " + text, ("device", 0, sum(size for size, _, _ in wanted), 0),
            figures(peak))
    compare(text, wanted, holders(peak))
    compare("other memories", [], peak["others"])


@needs("peak")
def solver(place):
    """peak: a program that frees everything, its holders with function, line and bytes"""
    wanted = [(900 * MIB, 1, WORKSPACE), (100 * MIB, 1, WEIGHTS)]
    expect(place, SOLVER, wanted)
    peak = peak_of(place, *SOLVER)
    compare("keys of a holder", {"api", "kind", "device", "bytes", "blocks", "cache", "stack"},
            set(peak["holders"][0]))
    compare("call", {("cuMemAlloc_v2", "device", 0, None)}, {
        tuple(holder[key] for key in ("api", "kind", "device", "cache"))
        for holder in peak["holders"]})
    compare("places", [("workspace", 900 * MIB), ("weights", 100 * MIB)], [
        (each["name"].split(" ")[0], each["bytes"]) for each in peak["places"]])
    compare("time", True, 0 <= peak["seconds"] < 60)
    for pool in ("strict", "fast"):
        expect(place, SOLVER, wanted, "with the pool " + pool, GPULEAK_POOL=pool)


LINE = (r"gpuleak: no leaks: 1,002 blocks \(1\.9 GiB\) allocated by p_peak \(pid \d+\), all freed; "
        r"peak 1000\.0 MiB, of which 900\.0 MiB by workspace \(\S+/peak\.c:%d\)")
TABLE = r"""
Peak of device 0: 1,048,576,000 bytes \(1000\.0 MiB\) after \S+ \S+, held by:
     900\.0 MiB  in 1 block \(device memory, cuMemAlloc_v2\), at take \(\S+\), called from workspace \(\S+\)
     100\.0 MiB  in 1 block \(device memory, cuMemAlloc_v2\), at take \(\S+\), called from weights \(\S+\)
  By library: 1000\.0 MiB p_peak
"""
BRIEF = (r"Peak: 1000\.0 MiB of device 0: 900\.0 MiB workspace \(\S+/peak\.c:\d+\), "
         r"100\.0 MiB weights \(\S+/peak\.c:\d+\)")


@needs("peak")
def text(place):
    """peak in text: the first line names the largest holder, -v lists all, a leak's report the first"""
    run = place.preloaded([place.program("peak"), *SOLVER], {})
    compare("first line", True, re.fullmatch(LINE % line_of("peak.c", "workspace"), run.stderr.strip()) is not None or
            run.stderr)
    run = place.preloaded([place.program("peak"), *SOLVER], {"GPULEAK_VERBOSE": "1"})
    compare("table", True, re.search(TABLE, run.stderr) is not None or run.stderr)
    run = place.preloaded([place.program("peak"), *SOLVER[:-1]], {})
    compare("with a leak", True, re.search("\n" + BRIEF + "\n", run.stderr) is not None or
            run.stderr)
    run = place.preloaded([place.program("peak"), "weights:3m", "free:0"], {})
    compare("one holder", True, re.match(
        r"gpuleak: no leaks: .*; peak 3\.0 MiB, all of it by take \(", run.stderr) is not None or
        run.stderr)


@needs("peak")
def moments(place):
    """peak: the first of equal moments counts, a later one if it is larger by a byte"""
    expect(place, ("workspace:8m", "free:0", "weights:8m", "free:1"), [(8 * MIB, 1, WORKSPACE)],
           "equal")
    expect(place, ("workspace:8388608", "free:0", "weights:8388609", "free:1"),
           [(8 * MIB + 1, 1, WEIGHTS)], "larger")
    expect(place, ("weights:1m", "workspace:8m", "free:0", "weights:1m", "weights:1m", "free:1",
                   "free:2", "free:3"),
           [(8 * MIB, 1, WORKSPACE), (2 * MIB, 2, WEIGHTS)], "two of one place")
    expect(place, ("grow:1000:4096", "free:0", "churn:3:4096", "free:1"),
           [(1000 * 4096, 1000, ["take@take", "grow@grow", "run@run_grow", "main"])], "growth")


@needs("peak")
def memories(place):
    """peak of each device and of host memory apart, each at its own time"""
    peak = peak_of(place, "pinned:7m", "weights:10m", "workspace:20m", "unpin", "free:1", "free:0",
                   "device:1", "workspace:5m", "pinned:6m", "free:2", "unpin", STANDIN_DEVICES="2")
    compare("device 0", ("device", 0, 30 * MIB, 0), figures(peak))
    compare("its holders", [(20 * MIB, 1, WORKSPACE), (10 * MIB, 1, WEIGHTS)], holders(peak))
    host, second = peak["others"]
    compare("host", ("host", -1, 7 * MIB, 0), figures(host))
    compare("its holder", [(7 * MIB, 1, ["pin@pin", "run@run", "main"])], holders(host))
    compare("device 1", ("device", 1, 5 * MIB, 0), figures(second))
    compare("its holder", [(5 * MIB, 1, WORKSPACE)], holders(second))
    run = place.preloaded([place.program("peak"), "pinned:7m", "weights:10m", "unpin", "free:0"], {})
    compare("the first line names the memory", True, "; peak 10.0 MiB of device 0, all of it by "
            "take (" in run.stderr.splitlines()[0] or run.stderr)


@needs("peak")
def threads(place):
    """peak: blocks that another thread allocated or freed"""
    expect(place, ("weights:4m", "beside:8m", "beside-free:0", "free:1"),
           [(8 * MIB, 1, IN_THREAD), (4 * MIB, 1, WEIGHTS)], "freed by others")
    expect(place, ("beside:8m", "beside-free:0", "beside:9m", "free:1", "weights:1m", "free:2"),
           [(9 * MIB, 1, IN_THREAD)], "one state after another")
    expect(place, ("beside:3m", "beside:4m", "free:0", "weights:5m", "beside-free:2", "free:1"),
           [(5 * MIB, 1, WEIGHTS), (4 * MIB, 1, IN_THREAD)], "freed before")


@needs("peak")
def steps(place):
    """peak with many threads: to an error of at most 1/64, which the report states"""
    peak = peak_of(place, "stay:5", "grow:2000:65536", "churn:9:1")
    all_of_it, noted = 2000 * 65536, peak["bytes"]
    compare("error", True, 0 <= all_of_it - noted <= peak["error_bytes"] <= noted // 64 and
            peak["error_bytes"] > 0)
    compare("holders", noted, sum(holder["bytes"] for holder in peak["holders"]))
    peak = peak_of(place, "stay:5", "weights:10m", "workspace:90m", "free:1", "free:0")
    compare("large steps are exact", [(90 * MIB, 1, WORKSPACE), (10 * MIB, 1, WEIGHTS)],
            holders(peak))


@needs("peak")
def virtual(place):
    """peak of virtual memory: the handle's call site holds it first, then the mapping's"""
    expect(place, ("create:4m", "map", "unmap"),
           [(4 * MIB, 1, ["create_on@vmm.h:create", "create_physical@physical", "run@run",
                          "main"])], "handle")
    peak = peak_of(place, "create:4m", "map", "weights:1m", "unmap", "free:0")
    compare("mapping", [(4 * MIB, ["map@vmm.h:map", "map_physical@mapping", "run@run", "main"]),
                        (1 * MIB, WEIGHTS)],
            [(size, stack) for size, _, stack in holders(peak)])
    compare("exact", 0, peak["error_bytes"])


@needs("peak")
def killed(place):
    """peak of a killed process: from the ledger that it left"""
    report = place.file("report.json")
    run = place.command("run", "--format", "json", "--report", report, "--",
                        place.program("peak"), *SOLVER, "kill")
    compare("status", 128 + signal.SIGKILL, run.status)
    with open(report, encoding="utf-8") as file:
        peak = json.load(file)["peak"]
    compare("figures", ("device", 0, 1000 * MIB, 0), figures(peak))
    compare("holders", [(900 * MIB, 1, WORKSPACE), (100 * MIB, 1, WEIGHTS)], holders(peak))


@needs("peak")
def nothing(place):
    """peak: null without memory, and one holder without a stack if no stacks are recorded"""
    compare("no memory", None, peak_of(place))
    expect(place, SOLVER, [(1000 * MIB, 2, [])], "no stacks", GPULEAK_STACK_DEPTH="0")


@needs("cl_leak")
def opencl(place):
    """peak of OpenCL's memory: its holders with function, line and bytes"""
    run = place.preloaded([place.program("cl_leak"), "peak"], reporting(place))
    compare("status and stderr", (0, ""), (run.status, run.stderr))
    report = place.json("report.json")
    peak = report["peak"]
    compare("memory and error", ("opencl", 0), (peak["memory"], peak["error_bytes"]))
    # PoCL 7 may free the others after the last allocation, of 100 bytes
    last = 100 if deferred(report) else 0
    compare("bytes", True, peak["bytes"] in (16000, 16000 + last))
    compare("holders", [
        (12000, 3, ["create@create", "peak@peak_large", "main@main"]),
        (4000, 1, ["create@create", "peak@peak_small", "main@main"])],
        [(holder["bytes"], holder["blocks"],
          [text for text in (frame_text(frame, "cl_leak.c") for frame in holder["stack"]) if text])
         for holder in peak["holders"] if holder["bytes"] > last])


PEAK = [solver, text, moments, memories, threads, steps, virtual, killed, nothing, opencl]
