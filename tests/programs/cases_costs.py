# SPDX-License-Identifier: MIT
"""What the driver itself takes of a device, by cause: each is the difference of the device's free
memory before and after a call. STANDIN_COSTS says what that must be."""

from cases_held import MIB, figures, only_device, sampled
from harness import Failed, compare, frame_text
from stories import needs, one_line, reporting

CONTEXT, MODULE, GRAPH, THREADS = 500 * MIB, 2 * MIB, 128 << 10, 132 * 2048
COSTS = {"STANDIN_COSTS": "%d,%d,%d,%d" % (CONTEXT, MODULE, GRAPH, THREADS)}
RETAIN = ("context", "cuDevicePrimaryCtxRetain", ["main@retain"], 1, 0, None, 0)
STACK = ("stack limit", "cuCtxSetLimit", ["main@stack"], 1, 1, 1024 * THREADS, 0)


def modules(calls=3, measured=3, ended=0):
    return ("module", "cuModuleLoadData", ["load@load", "main@modules"], calls, measured,
            measured * MODULE if measured else None, ended)


def costs(report):
    ret = []
    for cost in report["driver_costs"]:
        compare("device", 0, cost["device"])
        stack = [text for text in (frame_text(frame, "driver_costs.c") for frame in cost["stack"])
                 if text]
        ret.append((cost["cause"], cost["api"], stack, cost["calls"], cost["measured_calls"],
                    cost["bytes"], cost["ended"]))
    return ret


def run_mode(place, *mode, **env):
    run = place.preloaded([place.program("driver_costs"), *mode],
                          reporting(place, **{**COSTS, **env}))
    compare("status and stderr", (0, ""), (run.status, run.stderr))
    return costs(place.json("report.json"))


@needs("driver_costs")
def all_causes(place):
    """costs: context, modules, limits and graphs, each to the byte; the first context is unknown"""
    compare("costs", [
        ("context", "cuCtxCreate_v2", ["main@create"], 1, 1, CONTEXT, 0), RETAIN,
        ("graph", "cuGraphInstantiateWithFlags", ["instantiate@exec", "main@graphs"], 2, 2, 2 * GRAPH,
         0),
        ("malloc heap limit", "cuCtxSetLimit", ["main@heap"], 1, 1, 56 * MIB, 0),
        modules(),
        ("printf limit", "cuCtxSetLimit", ["main@printf"], 1, 1, 4 * MIB, 0),
        STACK], run_mode(place))


@needs("driver_costs")
def nothing_taken(place):
    """costs: a driver that takes nothing: calls and zeros"""
    for cost in run_mode(place, STANDIN_COSTS="0,0,0,0"):
        compare("bytes of %s" % cost[1], (None if cost[1] == RETAIN[1] else 0), cost[5])


@needs("driver_costs")
def unloaded(place):
    """costs: a module that was unloaded is counted as ended, so that its site explains nothing"""
    found = [cost for cost in run_mode(place, "unload") if cost[0] == "module"]
    compare("modules", [modules(ended=1)], found)


@needs("driver_costs")
def kernels(place):
    """costs: streams, the code of a kernel at its first launch, and local memory, each once"""
    found = run_mode(place, "kernels", STANDIN_COSTS="0,0,0,%d,%d,%d" % (THREADS, 600 << 10, 3 * MIB))
    compare("costs", [
        ("first launch", "cuLaunchKernel", ["launch@launch", "use_kernels@code", "main@kernels"],
         1, 1, 3 * MIB, 0),
        ("function", "cuKernelGetFunction", ["use_kernels@kernel", "main@kernels"], 1, 1, 3 * MIB, 0),
        ("local memory", "cuLaunchKernel", ["launch@launch", "use_kernels@local", "main@kernels"],
         1, 1, 3072 * THREADS, 0),
        ("stream", "cuStreamCreate", ["use_kernels@stream", "main@kernels"], 3, 3, 3 * 600 << 10, 1),
    ], [cost for cost in found if cost[0] in ("first launch", "function", "local memory", "stream")])


@needs("driver_costs")
def captured(place):
    """costs: while a stream is captured, nothing is measured"""
    found = [cost for cost in run_mode(place, "captured") if cost[0] == "module"]
    compare("modules", [modules(), ("module", "cuModuleLoadData",
                                    ["load@load", "load_captured@captured", "main@main_captured"],
                                    1, 0, None, 0)], found)


@needs("driver_costs")
def threads(place):
    """costs: of modules that threads load at the same time, those that are measured are exact"""
    found = [cost for cost in run_mode(place, "threads") if any("load_many@" in frame for frame in cost[2])]
    compare("calls", 1200, sum(cost[3] for cost in found))
    for cost in found:
        compare("bytes of %d calls" % cost[4], cost[4] * MODULE if cost[4] else None, cost[5])


@needs("driver_costs")
def pooled(place):
    """costs: with a pool nothing is measured, because the pool takes and returns memory itself"""
    for cost in run_mode(place, GPULEAK_POOL="fast"):
        compare("measured calls of %s" % cost[1], (0, None), cost[4:6])


@needs("driver_costs")
def in_text(place):
    """costs: one line of the text report, without NVML"""
    run = place.command("run", "--verbose", "1", "--", place.program("driver_costs"), "unload",
                        env=COSTS)
    line = one_line(run.stderr, "gpuleak: device 0: the driver took memory, measured call by call, for: ")
    for part in ("context 500.0 MiB in 1 of 2 calls", "module 6.0 MiB in 3 calls (1 ended since)",
                 "stack limit 264.0 MiB in 1 call", "graph 256.0 KiB in 2 calls"):
        if part not in line:
            raise Failed("%r is not in %s" % (part, line))
    if "not explained" in line:
        raise Failed(line)


@needs("held")
def unexplained(place):
    """costs: of NVML's figure, what a call took is explained, and the rest is stated"""
    device = only_device(sampled(place, "grow", STANDIN_COSTS="0,%d,0,0" % (400 * MIB)))
    compare("explained, rest", (800 * MIB, 600 * MIB),
            (device["explained_bytes"], device["unexplained_bytes"]))


@needs("held")
def more_than_all(place):
    """costs: more than NVML shows: by how much"""
    device = only_device(sampled(place, "grow", STANDIN_COSTS="0,%d,0,0" % (750 * MIB)))
    compare("explained, rest", (1500 * MIB, -100 * MIB),
            (device["explained_bytes"], device["unexplained_bytes"]))


@needs("held")
def more_than_all_text(place):
    """costs: more than NVML shows, in text: with the reason if other processes use the device"""
    for more, why in (("", ""), ("used 0 %d\n" % (4000 * MIB),
                                 ": other processes use the device, and each call is measured on "
                                 "the whole device")):
        place.write("nvml", "")
        run = place.command("run", "--", place.program("held"), "grow", more,
                            env=figures(place, STANDIN_COSTS="0,%d,0,0" % (750 * MIB)))
        line = one_line(run.stderr, "gpuleak: device 0: the driver took memory, measured call by call, for: ")
        if not line.endswith("; the sum is 100.0 MiB more than NVML counts" + why):
            raise Failed(line)


@needs("held")
def beside_others(place):
    """costs: a difference counts only while NVML shows the same bytes of other processes"""
    place.write("nvml", "process compute 0 1 %d\n" % MIB)
    report = sampled(place, "beside", STANDIN_COSTS="0,%d,0,0" % (400 * MIB))
    modules = {frame_text(cost["stack"][2], "held.c"): (cost["calls"], cost["measured_calls"], cost["bytes"])
               for cost in report["driver_costs"] if cost["cause"] == "module"}
    compare("modules", {"grow_beside@alone": (1, 1, 400 * MIB), "grow_beside@not_alone": (2, 0, None)}, modules)
    compare("explained", 400 * MIB, only_device(report)["explained_bytes"])


@needs("held")
def beside_others_text(place):
    """costs: beside other processes, in text: how many calls were measured"""
    place.write("nvml", "process compute 0 1 %d\n" % MIB)
    run = place.command("run", "--verbose", "1", "--", place.program("held"), "beside",
                        env=figures(place, STANDIN_COSTS="0,%d,0,0" % (400 * MIB)))
    line = one_line(run.stderr, "gpuleak: device 0: the driver took memory, measured call by call, for: ")
    compare("modules", True, "module 400.0 MiB in 1 of 3 calls" in line)


@needs("held")
def at_the_end(place):
    """costs: a program that ends right after its last cost: no sum is compared with an older sample"""
    place.write("nvml", "")
    run = place.command("run", "--verbose", "1", "--", place.program("held"), "to-the-end",
                        env=figures(place, STANDIN_COSTS="0,%d,0,0" % (750 * MIB)))
    line = one_line(run.stderr, "gpuleak: device 0: the driver took memory, measured call by call, for: ")
    compare("sum", False, "the sum is" in line)


@needs("driver_costs")
def never_negative(place):
    """costs: a call during which memory became free is not measured: another process returned it"""
    found = run_mode(place, STANDIN_COSTS="0,%d,0,0" % -MIB)
    compare("modules", [modules(measured=0)], [cost for cost in found if cost[0] == "module"])
    line = one_line(place.command("run", "--verbose", "1", "--", place.program("driver_costs"),
                                  env={"STANDIN_COSTS": "0,%d,0,0" % -MIB}).stderr,
                    "gpuleak: device 0: the driver took memory, measured call by call, for: ")
    compare("text", (True, False), ("module not measured in 3 calls" in line, "-" in line.split(": ", 3)[3]))


def with_free(place, free, story="grow-late"):
    """The report where NVML says before the program that FREE bytes are free."""
    place.write("nvml", "free 0 %d\n" % free)
    return sampled(place, story, STANDIN_MEMORY=str(8 << 30), STANDIN_COSTS="%d,0,0,0" % (500 * MIB))


def contexts(report):
    return [(cost["calls"], cost["measured_calls"], cost["bytes"])
            for cost in report["driver_costs"] if cost["cause"] == "context"]


@needs("held")
def first_context(place):
    """costs: the first context: what NVML calls free before the program, and the driver after it"""
    compare("context", [(1, 1, 500 * MIB)], contexts(with_free(place, 8 << 30)))


@needs("held")
def released_context(place):
    """costs: a primary context that the program released at its end: explains what it took"""
    report = with_free(place, 8 << 30, "grow-late-release")
    compare("ended", [1], [cost["ended"] for cost in report["driver_costs"]
                           if cost["cause"] == "context"])
    compare("explained", 500 * MIB, only_device(report)["explained_bytes"])


@needs("held")
def other_meaning(place):
    """costs: the first context is unknown where NVML and the driver can't mean the same by free"""
    compare("context", [(1, 0, None)], contexts(with_free(place, 64 << 30)))


COSTS_CASES = [all_causes, nothing_taken, unloaded, captured, threads, pooled, in_text, kernels,
               unexplained, more_than_all, more_than_all_text, beside_others, beside_others_text,
               at_the_end, never_negative, first_context, released_context,
               other_meaning]
