#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Cost of a tensor that PyTorch's stand-in allocates in its cache and frees: suballoc.py
native|python|cold. Prints ns per pair: of the allocator's own functions, of torch.empty() and del, or
of these while other memory takes the processor's caches between two pairs, as a training step does.
run.sh runs it with and without the preload."""

import sys
import time

import torch

PAIRS = 100000
COLD_PAIRS = 1000
OTHER = bytearray(2 << 20)  # read and written between two cold pairs: more than a core's own caches


def python():
    started = time.perf_counter_ns()
    for _ in range(PAIRS):
        tensor = torch.empty(1000, device="cuda")
        del tensor
    return (time.perf_counter_ns() - started) / PAIRS


def cold():
    copy, spent = bytearray(OTHER), 0
    for _ in range(COLD_PAIRS):
        copy[:] = OTHER
        started = time.perf_counter_ns()
        tensor = torch.empty(1000, device="cuda")
        del tensor
        spent += time.perf_counter_ns() - started
    return spent / COLD_PAIRS


WAYS = {"native": lambda: torch._C._pairs(PAIRS, 4096), "python": python, "cold": cold}
torch.empty(1000, device="cuda")
print("%.0f" % min(WAYS[sys.argv[1]]() for _ in range(3)))
