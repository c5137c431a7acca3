# SPDX-License-Identifier: MIT
"""The report for people, and the JSON and HTML reports: what programs on this machine do not do."""

import json
import re

from tools import same, true

ACCUMULATING = """
Accumulating: 204,800 bytes (200.0 KiB) in 400 tensors (PyTorch caching allocator, device 0), \
400 of 400 kept, 2 per second until the loop ended, allocated at:
    #0 train_step /src/app/train.py:8
    #1 <module> /src/app/train.py:20
  Next: `gpuleak run --keepers` names the variables that keep these

Held by caches: not leaks; the gate counts them only with --gate-caches 1
  PyTorch caching allocator: 2,097,152 bytes (2.0 MiB) in 1 block: 53,248 bytes (52.0 KiB) in \
tensors, 2,043,904 bytes (1.9 MiB) cached, unused; at make (/src/app/lib/make.c:7), called from \
main (/src/app/main.c:70)
"""
OUTSIDE = ("note: 1 tensor lies in no driver block that gpuleak recorded, and 1 tensor lies only "
           "partly in a driver block that gpuleak recorded: 768 bytes of them are in memory whose "
           "allocation gpuleak did not record\n")
INSIDE = """
Live inside the PyTorch caching allocator: 54,272 bytes (53.0 KiB) in 106 tensors, 6 of them at \
call sites that accumulate
  51,200 bytes (50.0 KiB) in 100 tensors (device 0), constant, allocated at:
    #0 make /src/app/lib/make.c:7
    #1 main /src/app/main.c:70
"""


def text(place, case, **env):
    return place.made("text", case, env=env).decode("utf-8")


def accumulating(place):
    """What accumulates comes first, with its stack; then how the cache's memory is divided."""
    told = text(place, "tensors")
    same(told.split("\n", 1)[0], "gpuleak: 200.0 KiB in 400 tensors accumulate at train_step (/src/app/train.py:8)")
    true(told.split("\n")[1].startswith("gpuleak: 4 blocks (2.0 MiB) allocated by python3 (pid 1), 0 freed, "), told)
    same(told.split("\n", 2)[2].split("\nnote: ")[0], ACCUMULATING.rstrip("\n"))
    same(told.count(OUTSIDE), 1)
    true("Live inside" not in told and "libquiet" not in told, told)


def running(place):
    """Of a process that still runs, the loop has not ended."""
    true(", 400 of 400 kept, 2 per second so far, allocated at:\n" in text(place, "running"),
         "so far")


def verbose(place):
    """A verbose report has what is live inside caches, by pool."""
    told = text(place, "tensors", MADE_VERBOSE="1")
    same(told.count(INSIDE), 1)
    same(told.count(ACCUMULATING.split("\n\n")[0]), 1)
    same(told.count(OUTSIDE), 1)
    true(": 53,248 bytes (52.0 KiB) in tensors, 2,043,904 bytes (1.9 MiB) cached, unused "
         "(device memory, cuMemAlloc_v2), allocated at:\n" in told, "the block")


def without(place):
    """Without suballocations there is no word of them."""
    for case in ("caches", "ranks", "eleven"):
        told = text(place, case, MADE_VERBOSE="1")
        true(not re.search("tensor|ccumulat|unused|Live inside", told), told)


def wild(place):
    """Huge counts, odd rates, no pool, no stack: one paragraph each, and no byte that turns."""
    told = place.made("text", "wild-tensors", env={"MADE_VERBOSE": "1"})
    # what suppresses a name has the name's own bytes
    told = told.split(b"\nTo suppress ")[0].decode("utf-8")
    same(len(re.findall("^Accumulating: ", told, re.M)), 7)
    same(len(re.findall("^Live inside the ", told, re.M)), 3)
    same(re.findall(r" kept(?:, (\S+ per \w+))? until the loop ended|kept, allocated", told),
         ["", "", "0 per hour", "30 per minute", "3.3 per second", "100 per second",
          "12,346 per second"])
    true("\x1b" not in told and "\u202e" not in told, "characters")


def json_keys(place):
    """JSON has the trend, what was kept, the division and what lies in no block."""
    report = json.loads(place.made("json", "tensors"))
    constant, kept, quiet = report["suballocations"]
    for entry in (constant, kept, quiet):
        del entry["stack"], entry["fingerprint"]
    same(constant, {"api": "c10::reportMemoryUsageToProfiler", "kind": "suballocation",
                    "device": 0, "bytes": 51200, "blocks": 100,
                    "cache": "PyTorch caching allocator", "allocated_blocks": 100,
                    "freed_blocks": 0, "trend": "constant", "kept_blocks": 0, "kept_bytes": 0,
                    "kept_per_second": 2.0, "peak_blocks": 0})
    same({**kept, **dict.fromkeys(("api", "kind", "cache"))},
         {"api": None, "kind": None, "device": 0, "bytes": 3072, "blocks": 6, "cache": None,
          "allocated_blocks": 400, "freed_blocks": 0, "trend": "accumulating",
          "kept_blocks": 400, "kept_bytes": 204800, "kept_per_second": 2.0, "peak_blocks": 0,
          "outside_blocks": 2, "outside_bytes": 768, "doubled_bytes": 256})
    same((quiet["pattern"], quiet["blocks"], quiet["kept_blocks"]), ("libquiet", 0, 30))
    same(report["cached"][0]["suballocated_bytes"], 53248)
    for entry in json.loads(place.made("json", "wild-tensors"))["suballocations"]:
        rate = entry.get("kept_per_second")
        true(rate is None or 0 <= rate < 1e15, rate)


def html(place):
    """The HTML report of wild tensors is data that a browser can parse."""
    page = place.made("html", "wild-tensors").decode("utf-8")
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.S)[1])
    same(len(data["suballocations"]), 8)
    same(data["suballocations"][1]["trend_text"], "filled up and stays")


CHECKS = [accumulating, running, verbose, without, wild, json_keys, html]
