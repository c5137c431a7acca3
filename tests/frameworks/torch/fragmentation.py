#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks what gpuleak reports of unused memory in the cache of PyTorch's stand-ins: how much of it a
tensor keeps, which line made the tensor, and if a refused request would have fitted. TAP.

    fragmentation.py --torch FOLDER --preload ... --command ... --standin ... [--only TEXT]
    fragmentation.py --script NAME     (a program, in this process)"""

import atexit
import ctypes
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
sys.path.insert(0, HERE)

from standin_torch import SITE_PACKAGES, arguments, run_steps
from harness import Failed, compare
from out_of_memory import EXPANDABLE, MIB, Place, only_entry, python_functions

sys.path.insert(0, SITE_PACKAGES)
CACHE = "PyTorch caching allocator"
kept = []


# ---- programs, on a device of 100 MiB. What they keep lives until the process ends. ----

def embed():
    import torch
    kept.append(torch.empty(2 * MIB, dtype=torch.uint8, device="cuda"))


def state(size=2):
    import torch
    kept.append(torch.empty(size * MIB, dtype=torch.uint8, device="cuda"))


def temporary(size):
    import torch
    return torch.empty(size * MIB, dtype=torch.uint8, device="cuda")


def program_pinned():
    """A small tensor in a large segment."""
    big = temporary(60)
    del big
    embed()


def program_interleaved():
    """Kept and temporary tensors take turns, in segments of 20 MiB."""
    others = []
    for _ in range(6):
        state()
        others.append(temporary(6))
    others.clear()


def program_growing():
    """Each sequence is longer than the one before, and its cache has another size."""
    last = None
    for size in (12, 14, 16, 18):
        last = temporary(size)
    del last
    kept.append(temporary(18))


def program_graph():
    """A private pool of a graph, and the common pool."""
    import torch
    driver = ctypes.CDLL("libcuda.so.1")
    stream, graph = ctypes.c_void_p(), ctypes.c_void_p()
    state()
    compare("stream", 0, driver.cuStreamCreate(ctypes.byref(stream), 1))
    torch._C.begin_pool(1)
    compare("begin", 0, driver.cuStreamBeginCapture_v2(stream, 2))
    embed()
    compare("end", 0, driver.cuStreamEndCapture(stream, ctypes.byref(graph)))
    torch._C.end_pool()
    kept.append(temporary(20))


def program_streams():
    """Tensors of two streams and of a private pool. Python ends by itself."""
    atexit.register(os._exit, 0)  # the last that runs, before the interpreter frees what it keeps
    import torch
    driver = ctypes.CDLL("libcuda.so.1")
    stream = ctypes.c_void_p()
    state()
    compare("stream", 0, driver.cuStreamCreate(ctypes.byref(stream), 1))
    torch._C.set_stream(stream.value)
    embed()
    torch._C.begin_pool(3)
    embed()
    torch._C.end_pool()
    print(hex(stream.value), flush=True)
    if os.environ.get("REPORT"):
        sys.path.insert(0, os.path.join(os.path.dirname(HERE), "..", "..", "python"))
        import gpuleak
        print(gpuleak.report("json"), flush=True)
        os._exit(0)
    if os.environ.get("BROKEN"):
        torch.cuda.memory_snapshot = lambda: [{"address": 1 << 30}]
    sys.exit()


def program_shared():
    """Two lines keep one segment."""
    big = temporary(60)
    del big
    embed()
    state(4)


def program_refused():
    """80 MiB are unused or free, and 50 MiB do not fit."""
    first, second = temporary(40), temporary(40)
    del first
    embed()
    rest = temporary(38)
    del second
    state()
    del rest
    kept.append(temporary(50))


def program_too_large():
    """The same, and the request is larger than all that is unused."""
    first, second = temporary(40), temporary(40)
    del first, second
    embed()
    state(30)
    kept.append(temporary(90))


def program_other():
    """The cache has free segments when another library requests memory."""
    import torch
    driver, address = ctypes.CDLL("libcuda.so.1"), ctypes.c_uint64()
    state()
    big = temporary(60)
    del big
    if os.environ.get("EMPTY"):
        torch.cuda.empty_cache()
    result = driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(50 * MIB))
    os._exit(1 if result else 0)


def run(program):
    globals()["program_" + program]()
    os._exit(0)  # before the interpreter frees what it keeps


# ---- cases ----

def figures(entry):
    return {name.replace("_bytes", ""): value / MIB if name.endswith("bytes") else value
            for name, value in entry.items() if isinstance(value, int) and name != "device"}


def one(entries, pool=None):
    found = [entry for entry in entries if entry["pool"] == pool]
    compare("entries of %s" % pool, 1, len(found))
    compare("what it is", (CACHE, 0, None), tuple(found[0][key] for key in
                                                  ("cache", "device", "stream")))
    return found[0]


def pins(entry):
    return [(python_functions(pin["stack"], "fragmentation.py")[0], pin["bytes"] / MIB,
             pin["blocks"], pin["segments"], pin["segment_bytes"] / MIB,
             pin["unused_bytes"] / MIB, pin["own_unused_bytes"] / MIB)
            for pin in entry["pinned_by"]]


def expect(entry, reserved, used, pinned_free, whole_free, segments, pinned):
    compare("figures", {"reserved": reserved, "used": used, "pinned_free": pinned_free,
                        "whole_free": whole_free, "segments": segments,
                        "pinned_segments": pinned}, figures(entry))


def told_by(place, *options):
    """The report of the last run."""
    ledger = os.path.join(place.path, "ledger-%d" % place.runs)
    return subprocess.run([place.options.command, "report", *options, ledger], check=True,
                          capture_output=True, text=True).stdout


def pinned(place):
    """A small tensor keeps a large segment"""
    entry = one(place.run("pinned")[1]["fragmentation"])
    expect(entry, 60, 2, 58, 0, 1, 1)
    compare("pins", [("embed", 2, 1, 1, 60, 58, 58)], pins(entry))
    wanted = "2.0 MiB in 1 tensor at embed ("
    told = told_by(place, "--verbose")
    if wanted not in told or " keep a segment of 60.0 MiB, 58.0 MiB of it unused\n" not in told:
        raise Failed(told)


def interleaved(place):
    """Kept and temporary tensors take turns"""
    entry = one(place.run("interleaved")[1]["fragmentation"])
    expect(entry, 60, 12, 48, 0, 3, 3)
    compare("pins", [("state", 12, 6, 3, 60, 48, 48)], pins(entry))


def growing(place):
    """Sequences that grow leave free segments, which no tensor keeps"""
    entry = one(place.run("growing")[1]["fragmentation"])
    expect(entry, 60, 18, 0, 42, 4, 0)
    compare("pins", [], pins(entry))


def graph(place):
    """Segments that were allocated during a capture are those of a private pool"""
    entries = place.run("graph")[1]["fragmentation"]
    expect(one(entries), 40, 22, 18, 0, 2, 1)
    expect(one(entries, "graph"), 20, 2, 18, 0, 1, 1)
    compare("pins", [("embed", 2, 1, 1, 20, 18, 18)], pins(one(entries, "graph")))


def streams(place):
    """With --keepers, or after a report in Python, the cache is divided by stream and private pool, as PyTorch has them"""
    def run(*options, **env):
        entries = place.run("streams", options=options, **env)[1]["fragmentation"]
        return [(entry["stream"], entry["private_pool"], entry["reserved_bytes"] // MIB,
                 entry["used_bytes"] // MIB, [pin[0] for pin in pins(entry)]) for entry in entries]

    for options, env in ((["--keepers"], {}), (["--keepers"], EXPANDABLE), ([], {"REPORT": "1"})):
        found = run(*options, **env)
        stream = place.output.split()[0]
        compare("entries", sorted([("0x0", None, 20, 2, ["state"]), (stream, None, 20, 2, ["embed"]),
                                   (stream, "3:0", 20, 2, ["embed"])], key=repr),
                sorted(found, key=repr))
    told = told_by(place, "--verbose")
    wanted = "PyTorch caching allocator, stream %s, private pool 3:0: 20.0 MiB reserved" % stream
    compare("text", True, wanted in told)
    labels = re.findall(r'^gpuleak_cache_used_bytes{.*cache="[^"]*",(.*)} ', told_by(
        place, "--format", "openmetrics"), re.M)
    compare("labels", sorted('pool="",stream="%s",private_pool="%s"' % each for each in
                             (("0x0", "0:0"), (stream, "0:0"), (stream, "3:0"))), sorted(labels))
    compare("a snapshot of another shape", [(None, None, 60, 6, ["embed", "embed", "state"])],
            run("--keepers", BROKEN="1"))
    compare("the error", True, "streams of PyTorch's cache cannot be read: KeyError" in place.errors)


def shared(place):
    """Two lines keep one segment: none of them alone"""
    entry = one(place.run("shared")[1]["fragmentation"])
    expect(entry, 60, 6, 54, 0, 1, 1)
    compare("pins", [("state", 4, 1, 1, 60, 54, 0), ("embed", 2, 1, 1, 60, 54, 0)], pins(entry))


def refused(place):
    """A request that fragmentation refuses, at that moment, and that expandable segments grant"""
    line, report = place.run("refused", status=1)
    entry = only_entry(report)
    compare("fits", True, entry["fits_unfragmented"])
    expect(one(entry["fragmentation"]), 80, 4, 76, 0, 2, 2)
    compare("lines", {"embed", "state"}, {pin[0] for pin in pins(one(entry["fragmentation"]))})
    compare("remedies", [("expandable-segments", 76), ("order", 38)],
            [(each["remedy"], each["frees_bytes"] / MIB) for each in entry["remedies"]])
    wanted = "); would fit without fragmentation: expandable_segments:True frees 76.0 MiB"
    if wanted not in line:
        raise Failed(line)
    for form in ("sarif", "github", "junit", "html"):
        compare(form, True, wanted in told_by(place, "--format", form))
    told = told_by(place)
    for part in ("  Unused in caches then: the request would have fitted:\n",
                 "cached, unused (device memory, cuMemAlloc_v2)\n",
                 "  By library: 76.0 MiB PyTorch caching allocator, 4.0 MiB libc10_cuda.so\n",
                 "in 1 tensor at embed (", "before larger temporary ones, or free them (frees up to 38.0 MiB)\n"):
        compare(part + told, True, part in told)
    _, report = place.run("refused", **EXPANDABLE)
    compare("with expandable segments", [], report["out_of_memory"])


def too_large(place):
    """A request that would not have fitted gets no advice in the first line"""
    line, report = place.run("too_large", status=1)
    compare("fits", False, only_entry(report)["fits_unfragmented"])
    compare("line", False, "would fit" in line)


def other(place):
    """Another library's request: emptying the cache would have been enough"""
    line, report = place.run("other", status=1)
    entry = only_entry(report)
    compare("fits", True, entry["fits_unfragmented"])
    compare("remedies", [("empty-cache", 60), ("expandable-segments", 18), ("order", 18)],
            [(each["remedy"], each["frees_bytes"] / MIB) for each in entry["remedies"]])
    wanted = "; would fit after torch.cuda.empty_cache() (frees 60.0 MiB)"
    if wanted not in line:
        raise Failed(line)
    _, report = place.run("other", EMPTY="1")
    compare("with an empty cache", [], report["out_of_memory"])


def metrics(place):
    """The same numbers are metrics"""
    place.run("pinned")
    told = told_by(place, "--format", "openmetrics")
    for name, value in (("reserved", 60), ("used", 2), ("pinned_free", 58), ("whole_free", 0)):
        row = [each for each in told.splitlines() if
               each.startswith("gpuleak_cache_%s_bytes{" % name)]
        compare(name, [str(value * MIB)], [each.split()[-1] for each in row])
    lines = dict(re.findall(r'^gpuleak_line_bytes\{.*line="([^"]*)"} (\d+)$', told, re.M))
    compare("lines", {"unused": 58 * MIB, "embed": 2 * MIB, "other": 0},
            {name.split(" (")[0]: int(value) for name, value in lines.items()})


CASES = [pinned, interleaved, growing, graph, streams, shared, refused, too_large, other, metrics]


def in_place(options, path, case):
    case(Place(options, path, os.path.realpath(__file__)))


def main():
    options = arguments(__doc__)
    if options.script:
        run(options.script)
    return run_steps(options, [(case.__doc__, in_place, case) for case in CASES])


if __name__ == "__main__":
    sys.exit(main())
