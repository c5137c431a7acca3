# SPDX-License-Identifier: MIT
"""A loop that keeps arrays of JAX, to attach to: attach_jax.py STEPS. Prints as attach_torch.py. Set
XLA_PYTHON_CLIENT_ALLOCATOR=platform, so that each array is a block."""
import sys
import time

import jax
import jax.numpy as jnp

kept = []


@jax.jit
def compute(x):
    return jnp.sin(x) * 2


def collect(number):
    kept.append(compute(jnp.full((1 << 16,), float(number))))  # @grows
    return float(kept[-1][0])


began, ready, total = time.monotonic(), False, 0.0
for step in range(int(sys.argv[1])):
    total += collect(step)
    time.sleep(0.005)
    if not ready and time.monotonic() - began > 5:
        ready = True
        print("ready", step, flush=True)
print("steps", len(kept), "sum", total.hex())
