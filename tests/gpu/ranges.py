#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""PyTorch in NVTX ranges: bytes by range, as PyTorch's own counters have them.

    ranges.py                       the program; prints its counts as JSON
    ranges.py compare REPORT OUT    compares them with gpuleak's JSON report; exit status 1: they differ"""

import collections
import contextlib
import json
import sys
import threading

COUNTS = collections.Counter()  # allocated bytes by name, without the ranges inside
OPEN = []


def allocated():
    import torch
    return torch.cuda.memory_stats()["allocated_bytes.all.allocated"]


@contextlib.contextmanager
def part(name):
    import torch
    begin = allocated()
    OPEN.append([name, 0])
    torch.cuda.nvtx.range_push(name)
    yield
    torch.cuda.nvtx.range_pop()
    path = "/".join(entry[0] for entry in OPEN)
    inside = OPEN.pop()[1]
    whole = allocated() - begin
    COUNTS[path] += whole - inside
    if OPEN:
        OPEN[-1][1] += whole


def train(kept):
    import torch
    model = torch.nn.Sequential(torch.nn.Linear(1000, 2000), torch.nn.ReLU(), torch.nn.Linear(2000, 10)).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    # Makes cuBLAS' handles of this thread and of autograd's outside the ranges: what cuBLAS allocates
    # from the driver is in no counter of PyTorch's.
    model(torch.randn(256, 1000, device="cuda")).square().mean().backward()
    optimizer.zero_grad()
    for step in range(20):
        with part("step"):
            with part("forward"):
                loss = model(torch.randn(256, 1000, device="cuda")).square().mean()
            with part("backward"):
                loss.backward()
            with part("optimizer"):
                optimizer.step()
                optimizer.zero_grad()
            if step % 4 == 0:
                with part("keep"):
                    kept.append(torch.empty(1000 + step, device="cuda"))


def program():
    import torch
    torch.zeros(1, device="cuda")
    kept, held = [], []
    train(kept)
    thread = threading.Thread(target=train, args=(kept,))
    thread.start()
    thread.join()
    begin = allocated()
    started = torch.cuda.nvtx.range_start("job")
    held.append(torch.empty(5000, device="cuda"))
    torch.cuda.nvtx.range_end(started)
    COUNTS["job"] += allocated() - begin
    left = sum(tensor.untyped_storage().nbytes() + 511 & ~511 for tensor in kept)
    print(json.dumps({"allocated": COUNTS, "left": {"step/keep": left}}), flush=True)
    import os
    os._exit(0)


def compare(report, out):
    with open(report, encoding="utf-8") as file:
        rows = {row["name"]: row for row in json.load(file)["ranges"]}
    with open(out, encoding="utf-8") as file:
        wanted = json.loads(next(line for line in file if line.startswith("{")))
    differ = [(name, bytes_, rows.get(name, {}).get("allocated_bytes"))
              for name, bytes_ in wanted["allocated"].items()
              if bytes_ != rows.get(name, {}).get("allocated_bytes", 0)]
    differ += [(name, bytes_, rows.get(name, {}).get("left_bytes"))
               for name, bytes_ in wanted["left"].items() if bytes_ != rows.get(name, {}).get("left_bytes")]
    print("%d ranges, %d bytes: %s" % (len(wanted["allocated"]), sum(wanted["allocated"].values()),
                                       "WRONG " + repr(differ) if differ else "all equal PyTorch's counters"))
    return bool(differ)


if __name__ == "__main__":
    sys.exit(compare(*sys.argv[2:]) if sys.argv[1:2] == ["compare"] else program())
