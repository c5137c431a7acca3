# SPDX-License-Identifier: MIT
"""GPULEAK_ACCUMULATION: blocks that a program keeps while it works, and frees before it ends."""

import json
import struct

from harness import Failed, compare, line_of

PROGRAM = "accumulation"
BYTES, GRAIN, STEPS = 4096, 2 << 20, 200
VIRTUAL = ("virtual", "mapped")  # mapped: the handle is released as soon as the memory is mapped
MEMORIES = ((), *((one,) for one in VIRTUAL))  # the program's second argument; (): device memory


def line_with(marker):
    return line_of("accumulation.c", marker)


def reported(place, story, *flags, memory=(), **env):
    run = place.command("run", "--format", "json", "--report", place.file("report.json"), *flags,
                        "--", place.program(PROGRAM), story, *memory, env=env)
    compare("status", 0, run.status)
    return place.json("report.json")


def found(report):
    """(trend, line, kind, live blocks, allocated, freed, kept, kept bytes) of each."""
    return [(one["trend"], one["stack"][0]["line"], one["kind"], one["blocks"],
             one["allocated_blocks"], one["freed_blocks"], one["kept_blocks"], one["kept_bytes"])
            for one in report.get("suballocations", [])]


def accumulated(count):
    return [("accumulating", line_with("result"), "device", 0, count, count, count, count * BYTES)]


def accumulated_virtual(count):
    return [("accumulating", line_with("created"), "vmm-handle", 0, count, count, count,
             count * GRAIN)]


def off(place):
    """accumulation: without the option nothing is counted"""
    report = reported(place, "kept")
    compare("key", False, "suballocations" in report)
    compare("leaks", [], report["leaks"])


def kept(place):
    """accumulation: what was kept and then freed is named, and no byte is in another sum"""
    without, report = reported(place, "kept"), reported(place, "kept", "--accumulation", "on")
    compare("call sites", accumulated(STEPS), found(report))
    accumulating = {name: report["summary"].pop(name) for name in list(report["summary"])
                    if name.startswith("accumulating_")}
    compare("sums of what accumulates", {"accumulating_blocks": STEPS,
                                         "accumulating_bytes": STEPS * BYTES}, accumulating)
    compare("summary", {**without["summary"]}, {
        **{name: 0 for name in without["summary"] if name.startswith("accumulating_")},
        **report["summary"]})


def clean(place):
    """accumulation: a program that frees what it allocates"""
    compare("call sites", [], found(reported(place, "clean", "--accumulation", "on")))


def leak(place):
    """accumulation: a call site with a block that is left is a leak, and only that"""
    report = reported(place, "one-left", "--accumulation", "on")
    compare("call sites", [], found(report))
    compare("leaks", [(line_with("result"), 1)],
            [(one["stack"][0]["line"], one["blocks"]) for one in report["leaks"]])


def refused(place):
    """accumulation: a call that the driver refuses ends no block, and no part of virtual memory"""
    for memory in MEMORIES:
        calls = ("cuMemUnmap", "cuMemRelease") if memory else ("cuMemFree_v2",)
        # the stand-in has room for 64 refusals
        fail = ",".join("%s:%d=2" % (call, number) for call in calls
                        for number in range(2, 130, 2 * len(calls)))
        for story, status in (("clean", 0), ("kept", 23)):
            what = " ".join((story, *memory))
            run = place.command("run", "--gate", "--gate-accumulation", "1", "--accumulation", "on",
                                "--", place.program(PROGRAM), story, *memory,
                                env={"STANDIN_FAIL": fail})
            compare("status of " + what, status, run.status)
            # counts that contradict the live blocks are not used, and the gate gives this reason
            compare("reason of " + what, False, "does not show if" in run.stderr)
            compare("faults of " + what, False, "not understood" in run.stderr)


def virtual(place):
    """accumulation: physical memory counts until its handle and its mappings have ended"""
    for memory in VIRTUAL:
        report = reported(place, "kept", "--accumulation", "on", memory=(memory,))
        compare("%s: call sites" % memory, accumulated_virtual(STEPS), found(report))
        compare("%s: leaks" % memory, [], report["leaks"])
        compare("%s: off" % memory, False, "suballocations" in reported(place, "kept",
                                                                        memory=(memory,)))
        run = place.command("run", "--gate", "--gate-accumulation", "1", "--accumulation", "on", "--",
                            place.program(PROGRAM), "kept", memory)
        compare("%s: status" % memory, 23, run.status)
        compare("%s: first line" % memory, True,
                "gpuleak: 400.0 MiB in 200 blocks accumulate at result (" in
                run.stderr.splitlines()[0])


def virtual_clean(place):
    """accumulation: virtual memory that each step frees"""
    for memory in VIRTUAL:
        report = reported(place, "clean", "--accumulation", "on", memory=(memory,))
        compare("%s: call sites" % memory, [], found(report))
        compare("%s: counted" % memory, True, "suballocations" in report)


def virtual_leak(place):
    """accumulation: virtual memory with a part that is left is a leak, and only that"""
    for memory, kind in zip(VIRTUAL, ("vmm-handle", "vmm-mapping")):
        for story, count in (("one-left", 1), ("left", STEPS)):
            report = reported(place, story, "--accumulation", "on", memory=(memory,))
            compare("%s: call sites" % memory, [], found(report))
            compare("%s: leaks" % memory, [(kind, count, count * GRAIN)],
                    [(one["kind"], one["blocks"], one["bytes"]) for one in report["leaks"]
                     if one["bytes"]])
            run = place.command("run", "--gate", "--gate-accumulation", "1", "--accumulation", "on",
                                "--", place.program(PROGRAM), story, memory)
            compare("%s: reason" % memory, False, "does not show if" in run.stderr)


def threads(place):
    """accumulation: four threads allocate, four end what any of them allocated"""
    for memory in MEMORIES:
        wanted = accumulated_virtual if memory else accumulated
        sites = found(reported(place, "threads", "--accumulation", "on", memory=memory))
        compare("call sites of %s" % (memory,), wanted(4 * STEPS)[0][:6],
                sites[0][:6] if len(sites) == 1 else sites)
        if not 3 * STEPS < sites[0][6] <= 4 * STEPS:
            raise Failed("%d of %d kept" % (sites[0][6], 4 * STEPS))


def context(place):
    """accumulation: the context ends what was kept"""
    sites = found(reported(place, "context", "--accumulation", "on"))
    compare("call sites", [one[:5] + (0,) + one[6:] for one in accumulated(STEPS)], sites)


def gate(place):
    """accumulation: the gate counts it with --gate-accumulation, and --suppressions suppress it"""
    rules = place.write("rules", "leak:result\n")
    for status, flags in ((0, ()), (23, ("--gate-accumulation", "1")),
                          (0, ("--gate-accumulation", "1", "--suppressions", rules))):
        run = place.command("run", "--gate", "--accumulation", "on", *flags, "--",
                            place.program(PROGRAM), "kept")
        compare("status with %s" % (flags,), status, run.status)
        compare("first line", "suppressions" not in " ".join(flags),
                " in 200 blocks accumulate at result (" in run.stderr.splitlines()[0])
    run = place.command("run", "--gate", "--gate-accumulation", "1", "--", place.program(PROGRAM),
                        "kept")
    compare("without the option", 0, run.status)


def formats(place):
    """accumulation: every format names it, and calls it no leak and no tensor"""
    ledger = place.file("ledger")
    place.command("run", "--accumulation", "on", "--ledger", ledger, "--", place.program(PROGRAM),
                  "kept")
    wanted = {
        "text": "819,200 bytes (800.0 KiB) in 200 blocks (device memory, cuMemAlloc_v2, device 0)",
        "html": '"unit": "block"', "junit": 'type="accumulation"', "sarif": '"accumulation"',
        "github": "GPU memory accumulates",
        "openmetrics": "gpuleak_site_accumulated_blocks", "json": '"accumulating"'}
    for name, text in wanted.items():
        path = place.file(name)
        place.command("report", "--format", name, "--report", path, ledger)
        with open(path, encoding="utf-8") as file:
            printed = file.read()
        if text not in printed and text.replace(": ", ":") not in printed:
            raise Failed("%s is not in %s:\n%s" % (text, name, printed[:3000]))
        if name in ("text", "junit", "github") and ("tensor" in printed or " cache" in printed):
            raise Failed("a tensor or a cache in %s:\n%s" % (name, printed[:3000]))
    for name in ("folded", "pprof"):
        place.command("report", "--format", name, "--report", place.file(name), ledger)
    compare("folded: nothing is live, but at the peak", [], [
        line for line in place.read("folded").splitlines() if not line.startswith("peak: ")])
    same = json.loads(place.command("diff", "--format", "json", ledger, ledger).stdout)
    compare("two reports are one", [("accumulating_counts", {"unchanged": 1}), ("counts", {})],
            [(key, {word: count for word, count in same[key].items() if count})
             for key in ("accumulating_counts", "counts")])


def version(place):
    """accumulation: a reader that does not know the series must refuse the ledger, but no other"""
    got = []
    for value in ("off", "on"):
        ledger = place.file(value)
        place.preloaded([place.program(PROGRAM), "kept"], {
            "GPULEAK_LEDGER": ledger, "GPULEAK_REPORT": "none", "GPULEAK_ACCUMULATION": value})
        with open(ledger, "rb") as file:
            got.append(struct.unpack_from("8xII", file.read(16)))
    compare("version and reader_min", [(2, 1), (2, 2)], got)


ACCUMULATION = [version, off, kept, clean, leak, refused, threads, context, virtual,
                virtual_clean, virtual_leak, gate, formats]
