# SPDX-License-Identifier: MIT
"""The trace: what was allocated at moments that the program itself counted, to the byte and by call
site; what changed between two moments; and what the report says where the trace has no answer."""

import glob
import json
import resource
import signal

from cases_attach import recorded
from harness import compare
from stories import needs, reporting

MIB = 1 << 20


def moments_of(output):
    """(is of the child, ns, {function: (bytes, blocks)}) of each moment that the program printed."""
    for line in output.splitlines():
        words = line.split()
        ns, *numbers = map(int, words[-5:])
        counted = {"small": tuple(numbers[:2]), "large": tuple(numbers[2:])}
        yield words[0] == "child", ns, {name: sums for name, sums in counted.items() if sums[1]}


def sums_of(amounts):
    """{function: (bytes, blocks)} of the holders of AMOUNTS."""
    return {holder["stack"][0]["function"]: (holder["bytes"], holder["blocks"])
            for holder in amounts["holders"]}


def read(place, ledger, *flags):
    run = place.command("report", "--format", "json", *flags, ledger)
    compare("status and stderr", (0, ""), (run.status, run.stderr))
    return json.loads(run.stdout)


def seconds(place, ledger, ns):
    start = read(place, ledger)["timeline"]["start_real_ns"]
    return "%.3fs" % ((ns - start) / 1e9)


def traced(place, *words, size="64MiB", status=0):
    """Runs the program. Returns its moments, and the ledgers, that of a child last."""
    run = place.preloaded([place.program("traced"), *words], {
        "GPULEAK_LEDGER": place.file("ledger.%p"), "GPULEAK_REPORT": "none", "GPULEAK_TRACE": size})
    compare("status and stderr", (status, ""), (run.status, run.stderr))
    own = place.file("ledger.%d" % run.pid)
    others = [path for path in glob.glob(place.file("ledger.*")) if path != own]
    return list(moments_of(run.stdout)), [own] + others


def check_moments(place, moments, ledger):
    for _, ns, wanted in moments:
        at = read(place, ledger, "--at", seconds(place, ledger, ns))["at"]
        compare("source", "trace", at["source"])
        compare("call sites", wanted, sums_of(at["live"]))
        compare("total", tuple(map(sum, zip(*wanted.values()))),
                (at["live"]["bytes"], at["live"]["blocks"]))


@needs("traced")
def ten_moments(place):
    """trace: ten moments, each equal to what the program counted"""
    moments, (ledger,) = traced(place, "1", "300", "10")
    compare("moments", 10, len(moments))
    check_moments(place, moments, ledger)
    at = read(place, ledger, "--at", seconds(place, ledger, moments[0][1]))["at"]
    compare("the trace has everything", 0, at["trace_begins_seconds"])
    for flags, after in ((("--at", "1h"), 1), (("--between", "0s..1h"), 1), (("--at", "0s"), 0)):
        compare(flags, after, place.command("report", *flags, ledger).stdout.count(
            "\n  The process ended at "))


@needs("traced")
def threads(place):
    """trace: four threads at a time"""
    moments, (ledger,) = traced(place, "2", "3000", "3", "threads:4")
    check_moments(place, moments, ledger)


@needs("traced")
def forked(place):
    """trace: a forked child has a trace of its own"""
    moments, ledgers = traced(place, "3", "300", "3", "fork")
    compare("ledgers", 2, len(ledgers))
    for is_child, ledger in enumerate(ledgers):
        check_moments(place, [moment for moment in moments if moment[0] == is_child], ledger)


@needs("traced")
def killed(place):
    """trace: a process that is killed while it allocates"""
    moments, (ledger,) = traced(place, "4", "1000", "3", "threads:2", "kill",
                                status=-signal.SIGKILL)
    check_moments(place, moments, ledger)
    # the moment of the kill: what the ledger says is live
    report = read(place, ledger, "--at", "1h")
    compare("at the end", (report["summary"]["leaked_bytes"], report["summary"]["leaked_blocks"]),
            (report["at"]["live"]["bytes"], report["at"]["live"]["blocks"]))


@needs("traced")
def small_ring(place):
    """trace: a ring that is smaller than one step answers from its first event on"""
    moments, (ledger,) = traced(place, "5", "1000", "3", size="16KiB")
    check_moments(place, moments[-1:], ledger)
    before = seconds(place, ledger, moments[0][1])
    at = read(place, ledger, "--at", before)["at"]
    compare("source", "timeline", at["source"])
    compare("keys", False, "live" in at)
    compare("the trace begins later", True, at["trace_begins_seconds"] > at["seconds"])
    run = place.command("report", "--at", before, ledger)
    compare("text", True, "The trace begins at " in run.stdout and
            "a larger --trace" in run.stdout or run.stdout)


@needs("traced")
def without(place):
    """trace: without one, the samples of the timeline answer, and the report says so"""
    moments, (ledger,) = traced(place, "6", "300", "3", size="0")
    when = seconds(place, ledger, moments[1][1])
    at = read(place, ledger, "--at", when)["at"]
    compare("source and begin", ("timeline", None), (at["source"], at["trace_begins_seconds"]))
    (before_ns, _), after = at["samples"]
    compare("sample", True, before_ns / 1e9 <= at["seconds"])
    compare("next sample", True, after is None or after[0] / 1e9 > at["seconds"])
    run = place.command("report", "--at", when, ledger)
    compare("text", True, "The ledger has no trace: run the program with --trace" in run.stdout or
            run.stdout)


@needs("traced")
def between(place):
    """trace: what was allocated, freed and left between two moments adds up"""
    moments, (ledger,) = traced(place, "7", "500", "4")
    (_, first, before), (_, last, after) = moments[0], moments[2]
    report = read(place, ledger, "--between", "%s..%s" % (
        seconds(place, ledger, first), seconds(place, ledger, last)))["between"]
    made, freed, left = (sums_of(report[key]) for key in ("allocated", "freed", "left"))
    compare("calls", 1000, report["allocated"]["blocks"] + report["freed"]["blocks"])
    for name in ("small", "large"):
        compare("change of " + name, tuple(a - b for a, b in zip(after[name], before[name])),
                tuple(a - b for a, b in zip(made[name], freed[name])))
        compare("left of " + name, True, left[name][1] <= min(made[name][1], after[name][1]))
    whole = read(place, ledger, "--between", "0s..1h")["between"]
    summary = read(place, ledger)["summary"]
    compare("all", (summary["allocated_bytes"], summary["freed_blocks"], summary["leaked_bytes"]),
            (whole["allocated"]["bytes"], whole["freed"]["blocks"], whole["left"]["bytes"]))


@needs("traced")
def little_room(place):
    """trace: a ring takes at most half of the room for the ledger, and all blocks are recorded"""
    limit = 4 * MIB
    run = place.preloaded([place.program("traced"), "8", "300", "1"], {
        "GPULEAK_LEDGER": place.file("ledger"), "GPULEAK_REPORT": "none", "GPULEAK_TRACE": "1GiB"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
    compare("status and stderr", (0, ""), (run.status, run.stderr))
    check_moments(place, list(moments_of(run.stdout)), place.file("ledger"))
    compare("notes", [], read(place, place.file("ledger"))["notes"])


@needs("peak")
def virtual(place):
    """trace: physical memory counts once, whichever of its handle and mapping has the bytes"""
    place.preloaded([place.program("peak"), "create:4m", "map", "weights:1m", "unmap", "free:0"],
                    reporting(place, GPULEAK_LEDGER=place.file("ledger"), GPULEAK_TRACE="1MiB"))
    whole = read(place, place.file("ledger"), "--between", "0s..1h")["between"]
    compare("allocated and freed", (5 * MIB, 5 * MIB, 0),
            tuple(whole[key]["bytes"] for key in ("allocated", "freed", "left")))


@needs("peak")
def refuses(place):
    """trace: times that are none, and formats that have no place for them"""
    place.preloaded([place.program("peak"), "weights:1m"],
                    reporting(place, GPULEAK_LEDGER=place.file("ledger")))
    for flags in (["--at", "soon"], ["--between", "2s"], ["--between", "2s..1s"],
                  ["--between", "1s..1s"], ["--at", "1s", "--format", "junit"]):
        run = place.command("report", *flags, place.file("ledger"))
        compare("status of %s" % flags, 2, run.status)
        compare("output", "", run.stdout)


@needs("attach")
def attached(place):
    """trace: of a process that was attached to; it begins with the attachment"""
    ledger = place.file("ledger")
    with recorded(place, "--trace", "4MiB", "--ledger", ledger) as (service, attach):
        service.work(30)
        compare("status", 0, attach.finish()[0])
        service.end()
    whole = read(place, ledger, "--between", "0s..1h")["between"]
    compare("source", "trace", whole["source"])
    compare("allocated, freed and left",
            (service.allocated, service.freed, service.allocated - service.freed),
            tuple(whole[key]["blocks"] for key in ("allocated", "freed", "left")))


TRACED = [ten_moments, threads, forked, killed, small_ring, without, between,
          little_room, virtual, refuses, attached]
