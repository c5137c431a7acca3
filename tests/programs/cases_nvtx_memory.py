# SPDX-License-Identifier: MIT
"""NVTX's extension for memory: heaps and regions of a program's own allocator are suballocations,
names of memory are in the report; wrong calls are counted and change no sum."""

import os

from cases_ranges import rows
from harness import Skipped, compare, line_of

KIB = 1 << 10


def reported(place, *words, stdout="", program="nvtx_memory", **env):
    run = place.preloaded([place.program(program), *words], {
        "GPULEAK_FORMAT": "json", "GPULEAK_REPORT": place.file("report.json"), **env})
    compare("status and output", (0, stdout, ""), (run.status, run.stdout, run.stderr))
    return place.json("report.json")


def regions(report):
    """(heap, bytes, blocks, allocated, freed, names) of each call site."""
    return sorted((one["cache"], one["bytes"], one["blocks"], one["allocated_blocks"],
                   one["freed_blocks"], tuple(one.get("names", ())))
                  for one in report.get("suballocations", []))


def notes(report):
    """{number that a note about NVTX's memory or suballocations begins with: its words}"""
    return sorted(int(note.split()[0].replace(",", "")) for note in report.get("notes", [])
                  if "NVTX memory" in note or "suballocations" in note)


def pool(place):
    """nvtx-memory: a heap's regions are suballocations, by range; memory has its names"""
    report = reported(place, "pool")
    compare("regions", [("my pool #", 2 * KIB, 1, 1, 0, ()),
                        ("my pool #", 4 * KIB, 1, 1, 0, ("weights #",))], regions(report))
    compare("lines", {line_of("nvtx_memory.c", "region"), line_of("nvtx_memory.c", "resize")},
            {frame["line"] for one in report["suballocations"] for frame in one["stack"][:1]})
    compare("leaks", [(64 * KIB, 6 * KIB, ["my pool #"]), (3 * KIB, None, ["table"])],
            [(one["bytes"], one.get("suballocated_bytes"), one.get("names"))
             for one in report["leaks"]])
    compare("notes", [], notes(report))
    compare("ranges", {("request", None): (13, 9, 4, 12), ("other", None): (2, 0, 2, 2),
                       ("(outside)", None): (3, 0, 3, None)}, rows(report))
    text = place.preloaded([place.program("nvtx_memory"), "pool"]).stderr
    compare("text", 1, text.count("  Named: my pool #\n"))
    text = place.preloaded([place.program("nvtx_memory"), "pool"],
                           {"GPULEAK_RANGES_AS_NAMED": "1"}).stderr
    compare("as named", 1, text.count("  Named: my pool 7\n"))


def ends(place):
    """nvtx-memory: heaps that are reset and unregistered leave nothing"""
    report = reported(place, "ends")
    compare("regions", ([], [], [], 0), (regions(report), notes(report), report["leaks"],
                                         report["summary"]["leaked_bytes"]))


def wrong(place):
    """nvtx-memory: wrong heaps, regions and ends are counted and said once; sums are right"""
    report = reported(place, "wrong")
    compare("regions", [("mine", KIB, 1, 1, 0, ())], regions(report))
    compare("outside", KIB, report["suballocations"][0].get("outside_bytes"))
    compare("notes", [1, 3, 4, 9], notes(report))
    compare("leaks", [], report["leaks"])


def many(place):
    """nvtx-memory: a million regions and a thousand names: a ledger of bounded size"""
    ledger = place.file("ledger")
    report = reported(place, "many", GPULEAK_LEDGER=ledger)
    found = regions(report)
    compare("last", [("other heaps", KIB, 1)], [one[:3] for one in found])
    compare("notes", [936000], notes(report))
    compare("size in MiB", True, os.path.getsize(ledger) < 8 << 20)


def accumulation(place):
    """nvtx-memory: regions that accumulate"""
    report = reported(place, "accumulate")
    found = [one for one in report["suballocations"] if one["trend"] == "accumulating"]
    compare("site", [("mine", 200, line_of("nvtx_memory.c", "kept"))],
            [(one["cache"], one["kept_blocks"], one["stack"][1]["line"]) for one in found])


def refused(place):
    """nvtx-memory: out of memory: what the regions had, and what is free in the heap"""
    report = reported(place, "refused", stdout="refused 2\n", GPULEAK_LIMIT="1MiB")
    entry = report["out_of_memory"][0]
    compare("holders", [("mine", 48 * KIB)], [(one["cache"], one["bytes"])
                                               for one in entry["holders"] if "nvtx" in one["api"]])
    compare("fragmentation", [("mine", 64 * KIB, 48 * KIB)],
            [(one["cache"], one["reserved_bytes"], one["used_bytes"])
             for one in report["fragmentation"]])


def mixed(place):
    """nvtx-memory: a call site with heaps and other blocks: ranges count blocks, not regions"""
    report = reported(place, "mixed")
    compare("regions", [("mine", 4 * KIB, 1, 1, 0, ())], regions(report))
    compare("ranges", {("(outside)", None): (128, 0, 128, None)}, rows(report))


def other_tool(place):
    """nvtx-memory: another tool is the injection: it is called, and its handles count"""
    tool = {"NVTX_INJECTION64_PATH": place.module("nvtx_tool")}
    report = reported(place, "refused", stdout="tool: heap\nrefused 2\n", GPULEAK_LIMIT="1MiB", **tool)
    compare("regions", [("mine", 48 * KIB, 1, 1, 0, ())], regions(report))
    run = place.run([place.program("nvtx_memory")], {
        "NVTX_INJECTION64_PATH": os.path.abspath(place.options.preload)})
    compare("loaded for NVTX alone", (0, "no tool\n", ""), (run.status, run.stdout, run.stderr))


def real_header(place):
    """nvtx-memory: a program with NVIDIA's header"""
    if not os.path.exists(place.program("nvtx_memory_header")):
        raise Skipped("nvtx3/nvToolsExtMem.h is not installed")
    report = reported(place, program="nvtx_memory_header")
    compare("regions", [("library", 4 * KIB, 1, 2, 1, ("weights",))], regions(report))


NVTX_MEMORY = [pool, ends, wrong, many, accumulation, refused, mixed, other_tool, real_header]
