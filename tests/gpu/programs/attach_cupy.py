# SPDX-License-Identifier: MIT
"""A loop that keeps arrays of CuPy, to attach to: attach_cupy.py STEPS. Prints as attach_torch.py.
Without CuPy's pool, each array is a block: the number that is kept after `ready` is counted."""
import sys
import time

import cupy

cupy.cuda.set_allocator(None)
kept = []


def collect(number):
    kept.append(cupy.full(1 << 16, number, dtype=cupy.float32))  # @grows
    return float(kept[-1].sum())


began, ready, total = time.monotonic(), False, 0.0
for step in range(int(sys.argv[1])):
    total += collect(step)
    time.sleep(0.005)
    if not ready and time.monotonic() - began > 5:
        ready = True
        print("ready", step, flush=True)
print("steps", len(kept), "sum", total.hex())
