# SPDX-License-Identifier: MIT
"""What memory pools of the driver keep without using it: when memory runs out, at the peak, at exit."""

import re

from harness import Failed, compare
from stories import needs, reporting

MIB = 1 << 20
REFUSED = {"STANDIN_FAIL": "cuMemAlloc_v2:1=2"}
PARK = ("keep", "take:96m", "back")
WORDS = "unused in CUDA's default memory pool (release threshold 2^64-1): cudaMemPoolTrimTo gives " \
        "them back"


def parked(place, *words, status=0, **env):
    """The parked memory in the JSON report, and the program's output in lines."""
    run = place.preloaded([place.program("parked"), *words], reporting(place, **env))
    compare("status and stderr", (status, ""), (run.status, run.stderr))
    entries = place.json("report.json").get("parked", [])
    for entry in entries:
        compare("device and time", (0, True), (entry["device"], 0 <= entry["seconds"] < 60))
    return {(entry["pool"], entry["when"]): (entry["reserved_bytes"], entry["used_bytes"])
            for entry in entries}, run.stdout.split("\n")[:-1]


def text_of(place, *words, env=None, gate=()):
    run = place.command("run", *gate, "--", place.program("parked"), *words, env=env)
    return run.status, run.stderr.split("\n")[:-1]


@needs("parked")
def refused(place):
    """parked: an out-of-memory names what the default pool keeps, instead of nothing"""
    words = (*PARK, "figures", "want:64m", "exit:1")
    entries, out = parked(place, *words, status=1, **REFUSED)
    compare("output", ["reserved %d used 0" % (96 * MIB), "want 2"], out)
    compare("entries", {("default", "peak"): (96 * MIB, 96 * MIB),
                        ("default", "out-of-memory"): (96 * MIB, 0),
                        ("default", "exit"): (96 * MIB, 0)}, entries)
    entry = place.json("report.json")["out_of_memory"][0]
    compare("entry", (96 * MIB, 0), (entry["parked_bytes"], entry["tracked_bytes"]))
    _, lines = text_of(place, *words, env=REFUSED)
    first = " ".join(lines[:2]).replace("; gpuleak: ", "; ") # in one line or two
    if not re.match(r"gpuleak: out of memory: 64\.0 MiB wanted at want \(\S+/parked\.c:\d+\); "
                    r"held: 96\.0 MiB unused in ", first):
        raise Failed(first)
    compare("nothing", 0, sum("nothing by this process" in line for line in lines))
    compare("once more", 1, lines.count("  Parked: 96.0 MiB " + WORDS))


@needs("parked")
def at_exit(place):
    """parked: memory of pools at exit is no leak and fails no gate; one line, if it is considerable"""
    compare("gate", 0, text_of(place, *PARK, gate=("--gate",))[0])
    status, lines = text_of(place, *PARK)
    compare("status and lines", (0, 3), (status, len(lines)))
    compare("first line", True, lines[0].startswith("gpuleak: no leaks: 1 block (96.0 MiB) "))
    compare("two streams are no headline", True, lines[1].startswith(
        "gpuleak: also: never destroyed: 2 streams, most at main ("))
    compare("line", "At exit, no leak: 96.0 MiB " + WORDS, lines[2])
    _, lines = text_of(place, "keep", "take:1023m", "take:1m", "back")
    compare("a thousandth", 0, sum("unused in" in line for line in lines))
    compare("nothing is kept", 2, len(text_of(place, "take:96m", "back")[1]))


@needs("parked")
def peaks(place):
    """parked: read when the peak has risen by a sixteenth, after a second at the earliest"""
    entries, _ = parked(place, "keep", "take:64m", "ms:1100", "take:2m")
    compare("less", (64 * MIB, 64 * MIB), entries["default", "peak"])
    entries, _ = parked(place, "keep", "take:64m", "ms:1100", "take:8m", "back")
    compare("more", (96 * MIB, 72 * MIB), entries["default", "peak"])
    entries, _ = parked(place, *PARK, "ms:1100", "want:128m")
    compare("by another call", (96 * MIB, 0), entries["default", "peak"])


@needs("parked")
def created(place):
    """parked: pools that the program makes, until it destroys them"""
    entries, _ = parked(place, *PARK, "own", "keep", "take:32m", "take:32m", "back", "want:1m",
                        **REFUSED)
    names = {pool for pool, _ in entries}
    compare("pools", (2, True), (len(names), "default" in names))
    own = (names - {"default"}).pop()
    compare("handle", "0x", own[:2])
    compare("at exit", ((96 * MIB, 0), (64 * MIB, 32 * MIB)),
            (entries["default", "exit"], entries[own, "exit"]))
    compare("refused", (64 * MIB, 32 * MIB), entries[own, "out-of-memory"])
    _, lines = text_of(place, *PARK, "own", "keep", "take:32m", "back")
    compare("line", 1, lines.count(
        "At exit, no leak: 128.0 MiB unused in 2 memory pools, most in CUDA's default memory pool (release "
        "threshold 2^64-1): cudaMemPoolTrimTo gives their memory back"))
    entries, _ = parked(place, "own", "keep", "take:32m", "back", "destroy", "want:1m", **REFUSED)
    compare("destroyed", {"peak"}, {when for _, when in entries})


@needs("parked")
def capturing(place):
    """parked: no pool is read while a stream is captured, so that no capture is invalidated"""
    entries, out = parked(place, *PARK, "capture", "want:1m", "over", **REFUSED)
    compare("output", ["want 2", "over 0"], out)
    compare("moments", {"peak", "exit"}, {when for _, when in entries})
    entries, out = parked(place, *PARK, "capture")
    compare("moments", {"peak"}, {when for _, when in entries})
    _, out = parked(place, *PARK, "capture", "figures", status=1)  # the driver forbids it
    compare("output", ["reserved: 900"], out)


@needs("parked")
def unreadable(place):
    """parked: a driver that returns errors, or does not have the call"""
    for fail in ("cuMemPoolGetAttribute:1+=801", "cuMemPoolGetAttribute:3+=999",
                 "cuDeviceGetDefaultMemPool:2+=801"):
        entries, out = parked(place, *PARK, "want:1m", STANDIN_FAIL=fail + "," + REFUSED["STANDIN_FAIL"])
        compare("output and entries", (["want 2"], {}), (out, entries))
    _, lines = text_of(place, *PARK, "want:1m", "exit:1",
                       env={"STANDIN_FAIL": "cuMemPoolGetAttribute:1+=801,cuMemAlloc_v2:1=2"})
    compare("words", 0, sum("unused in" in line for line in lines))


@needs("parked")
def own_pool(place):
    """parked: gpuleak's own pool is no pool of the driver"""
    entries, _ = parked(place, "want:64m", GPULEAK_POOL="fast")
    compare("entries", {}, entries)


PARKED = [refused, at_exit, peaks, created, capturing, unreadable, own_pool]
