#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Cost of a tensor that PyTorch's stand-in allocates in its cache and frees: suballoc.py
native|python. Prints ns per pair: of the allocator's own functions, or of torch.empty() and del.
run.sh runs it with and without the preload."""

import sys
import time

import torch

PAIRS = 100000


def python():
    started = time.perf_counter_ns()
    for _ in range(PAIRS):
        tensor = torch.empty(1000, device="cuda")
        del tensor
    return (time.perf_counter_ns() - started) / PAIRS


torch.empty(1000, device="cuda")
print("%.0f" % min(python() if sys.argv[1] == "python" else torch._C._pairs(PAIRS, 4096)
                    for _ in range(3)))
