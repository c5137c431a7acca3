#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Programs with PyTorch that leave unused memory in its cache, each under `gpuleak run`. Compares the
report's figures with torch.cuda.memory_snapshot() of the same moment, and the line that keeps the
memory with the planted one. Status 1 if anything differs.

    fragmentation.py --gpuleak CMD --results DIR
    fragmentation.py --program NAME     (in this process; prints the snapshot's figures as JSON)"""

import argparse
import atexit
import json
import os
import subprocess
import sys

MIB, GIB = 1 << 20, 1 << 30
EXPANDABLE = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
kept = []


def new(size):
    import torch
    return torch.empty(size, dtype=torch.uint8, device="cuda")


def stream_of(segment):
    """As name_of() names it, with --keepers."""
    first, second = segment["segment_pool_id"]
    return "%#x %s" % (segment["stream"], "%d:%d" % (first, second) if first or second else None)


def figures(by_stream=False):
    """By pool, or by stream and pool: what memory_snapshot() has."""
    import torch
    ret = {}
    for segment in torch.cuda.memory_snapshot():
        used = sum(block["size"] for block in segment["blocks"]
                   if block["state"] == "active_allocated")
        pool = "null" if tuple(segment["segment_pool_id"]) == (0, 0) else "graph"
        of = ret.setdefault(stream_of(segment) if by_stream else pool, dict.fromkeys(("reserved", "used", "pinned_free", "whole_free",
                                           "segments", "pinned_segments"), 0))
        unused = segment["total_size"] - used
        of["reserved"] += segment["total_size"]
        of["used"] += used
        of["pinned_free" if used else "whole_free"] += unused
        of["segments"] += 1
        of["pinned_segments"] += bool(used and unused)
    return ret


# ---- programs. Each returns the figures, by default those at its end. ----

def embed(size=2 * MIB):
    import torch
    kept.append(torch.empty(size, dtype=torch.uint8, device="cuda"))


def program_pinned():
    """A small tensor keeps a large segment."""
    big = new(512 * MIB)
    del big
    embed()


def program_interleaved():
    """Kept and temporary tensors take turns in segments of 20 MiB."""
    others = []
    for _ in range(60):
        embed()
        others.append(new(6 * MIB))
    others.clear()


def program_growing():
    """Each sequence is longer than the one before."""
    last = None
    for length in range(100, 200, 10):
        last = new(length * MIB)
        embed(300 * 1024)
    kept.append(last)


def program_graph():
    """A private pool of a CUDA graph beside the common one."""
    import torch
    embed()
    graph, static = torch.cuda.CUDAGraph(), torch.ones(MIB, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        temporary = static.repeat(16)
        result = temporary[:MIB].clone()
        del temporary
    kept.append((graph, static, result))


def program_streams():
    """The default stream, two others and the pool of a graph. Python ends by itself."""
    import torch
    for _ in range(2):
        with torch.cuda.stream(torch.cuda.Stream()):
            big = new(64 * MIB)
            del big
            embed()
    program_graph()
    return {"figures": figures(True), "refused": False}


def program_refused():
    """Two segments of 4 GiB with 256 MiB each, 2 GiB free, and a request for 5 GiB."""
    import torch
    new(1)
    filler = new(torch.cuda.mem_get_info()[0] // (2 * MIB) * 2 * MIB - 10 * GIB)
    first, second = new(4 * GIB), new(4 * GIB)
    del first
    embed(256 * MIB)
    rest = new(4 * GIB - 256 * MIB)
    del second
    embed(256 * MIB)
    del rest
    kept.append(filler)
    try:
        kept.append(new(5 * GIB))
    except torch.cuda.OutOfMemoryError:
        return {"figures": figures(), "refused": True}
    return {"figures": figures(), "refused": False}


def run(name):
    atexit.register(os._exit, 0)  # before the interpreter frees what it keeps
    ret = globals()["program_" + name]() or {"figures": figures(), "refused": False}
    print(json.dumps(ret), flush=True)
    if name != "streams":
        os._exit(1 if ret["refused"] else 0)


# ---- the comparison ----

def name_of(entry):
    return "%s %s" % (entry["stream"], entry["private_pool"]) if entry["stream"] \
        else entry["pool"] or "null"


def reported(entries):
    return {name_of(entry): {name.replace("_bytes", ""): value
                                      for name, value in entry.items()
                                      if isinstance(value, int) and name != "device"}
            for entry in entries}


def lines_of(entries):
    return {next((frame["function"] for frame in pin["stack"]
                  if (frame["file"] or "").endswith("/fragmentation.py")), None)
            for entry in entries for pin in entry["pinned_by"]}


def check(options, name, env):
    path = os.path.join(options.results, name + ("-expandable" if env else "") + ".json")
    ran = subprocess.run(
        [options.gpuleak, "run", *(["--keepers"] if name == "streams" else []), "--format", "json",
         "--report", path, "--", sys.executable,
         os.path.realpath(__file__), "--program", name], env={**os.environ, **env}, text=True,
        capture_output=True, check=False, timeout=200)
    if not ran.stdout.startswith("{"):
        return ["the program failed (%d): %s" % (ran.returncode, ran.stderr[-800:])]
    truth = json.loads(ran.stdout.splitlines()[0])
    with open(path, encoding="utf-8") as file:
        report = json.load(file)
    entries = report["fragmentation"]
    if truth["refused"]:
        last = report["out_of_memory"][-1]
        entries = last.get("fragmentation", [])
        if not last.get("fits_unfragmented"):
            return ["fits_unfragmented: %s" % last.get("fits_unfragmented")]
    got = reported(entries)
    if env: # the unit is a piece of physical memory, not the snapshot's segment
        got = {pool: {key: of[key] for key in ("reserved", "used")} for pool, of in got.items()}
        truth["figures"] = {pool: {key: of[key] for key in ("reserved", "used")}
                            for pool, of in truth["figures"].items()}
        if truth["refused"]:
            return ["refused with expandable segments, too"]
    wrong = [] if got == truth["figures"] else ["snapshot %s, report %s" % (truth["figures"], got)]
    if not env and "embed" not in lines_of(entries):
        wrong.append("lines: %s" % lines_of(entries))
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("program", "gpuleak", "results"):
        parser.add_argument("--" + name, default="")
    options = parser.parse_args()
    if options.program:
        run(options.program)
    os.makedirs(options.results, exist_ok=True)
    failed = 0
    for name in ("pinned", "interleaved", "growing", "graph", "streams", "refused"):
        for env in ({}, EXPANDABLE):
            wrong = check(options, name, env)
            failed += bool(wrong)
            print("%s - %s%s" % ("not ok" if wrong else "ok", name,
                                 " with expandable segments" if env else ""), flush=True)
            for line in wrong:
                print("    " + line)
    print("%d of 12 differ" % failed)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
