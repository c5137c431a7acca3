#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The trace with PyTorch: at ten moments of a program, `gpuleak report --at` and the format memory-viz
against torch.cuda.memory_allocated() and memory_snapshot() of that moment, and PyTorch's own script on
the snapshots. Status 1 if anything differs.

    trace.py --gpuleak CMD --results DIR
    trace.py --program moments     (in this process; prints JSON)"""

import argparse
import contextlib
import io
import json
import os
import pickle
import random
import subprocess
import sys
import time

MIB = 1 << 20


def moment():
    import torch
    torch.cuda.synchronize()
    time.sleep(0.03)
    segments = {segment["address"]: (segment["total_size"], sum(
        block["size"] for block in segment["blocks"] if block["state"] == "active_allocated"))
        for segment in torch.cuda.memory_snapshot()}
    ret = {"ns": time.time_ns(), "allocated": torch.cuda.memory_allocated(),
           "segments": sorted((address, *sizes) for address, sizes in segments.items())}
    time.sleep(0.03)
    return ret


def program_moments():
    """Tensors of random sizes come and go; cuBLAS takes a workspace."""
    import torch
    rand, kept, ret = random.Random(1), [], []
    for step in range(10):
        for _ in range(200):
            if kept and rand.random() < 0.45:
                kept.pop(rand.randrange(len(kept)))
            else:
                size = rand.choice((rand.randrange(1, 4096), rand.randrange(1, 40 * MIB)))
                kept.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
            if len(kept) > 60:
                kept.pop(0)
        if step == 5:
            kept.append(torch.ones(2048, 2048, device="cuda") @ torch.ones(2048, 2048, device="cuda"))
            kept.clear()
            torch.cuda.empty_cache()
        ret.append(moment())
    return ret


def run(*words):
    return subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout


def same(what, wanted, got):
    print("%s - %s%s" % ("ok" if wanted == got else "not ok", what, "" if wanted == got else
                         ": wanted %.300r, got %.300r" % (wanted, got)), flush=True)
    return wanted == got


def by_pytorch(snapshot):
    """Returns what PyTorch's own script says of the snapshot."""
    from torch.cuda import _memory_viz as viz
    with contextlib.redirect_stdout(io.StringIO()):
        return [len(text) > 100 for text in (
            viz.segsum(snapshot), viz.trace(snapshot), viz.trace_plot(snapshot),
            viz.segment_plot(snapshot), viz.memory(snapshot, lambda text: text))]


def check_moments(options):
    ledger, good = os.path.join(options.results, "moments.gpuleak"), True
    moments = json.loads(run(options.gpuleak, "run", "--trace", "64MiB", "--report", "none", "--ledger",
                             ledger, "--", sys.executable, __file__, "--program", "moments"))
    whole = json.loads(run(options.gpuleak, "report", "--format", "json", ledger))
    for number, wanted in enumerate(moments):
        at = "%.3fs" % ((wanted["ns"] - whole["timeline"]["start_real_ns"]) / 1e9)
        live = json.loads(run(options.gpuleak, "report", "--format", "json", "--at", at, ledger))["at"]
        good &= same("moment %d: source" % number, "trace", live["source"])
        good &= same("moment %d: bytes of tensors" % number, wanted["allocated"], sum(
            holder["bytes"] for holder in live["live"]["holders"]
            if holder["kind"] == "suballocation"))
        snapshot = pickle.loads(run(options.gpuleak, "report", "--format", "memory-viz", "--at", at,
                                    ledger))
        known = {segment[0] for segment in wanted["segments"]}
        good &= same("moment %d: segments" % number, wanted["segments"], sorted(
            [segment["address"], segment["total_size"], segment["allocated_size"]]
            for segment in snapshot["segments"] if segment["address"] in known))
        others = [segment for segment in snapshot["segments"] if segment["address"] not in known]
        print("# %d segments of others, %d bytes" % (len(others), sum(
            segment["total_size"] for segment in others)))
        good &= same("moment %d: PyTorch's script" % number, [True] * 5, by_pytorch(snapshot))
    content = run(options.gpuleak, "report", "--format", "perfetto", ledger)
    with open(os.path.join(options.results, "moments.perfetto"), "wb") as file:
        file.write(content)
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", choices=["moments"])
    parser.add_argument("--gpuleak")
    parser.add_argument("--results")
    options = parser.parse_args()
    if options.program:
        print(json.dumps(globals()["program_" + options.program]()))
        return 0
    os.makedirs(options.results, exist_ok=True)
    good = check_moments(options)
    print("moments %s" % ("equal" if good else "DIFFER"))
    return 0 if good else 1


sys.exit(main())
