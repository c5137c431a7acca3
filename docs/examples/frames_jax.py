# SPDX-License-Identifier: MIT
# Ten pictures of 4 MiB go to the device and are kept in a dictionary that nobody empties; the
# process ends as a worker does, without a word to Python. With
# XLA_PYTHON_CLIENT_ALLOCATOR=platform each is a block of its own; otherwise XLA's pool takes the
# memory. Prints what that says it holds, 0 without a pool.
import os
import numpy as np
import jax

seen = {}


def on_device(number):
    frame = jax.device_put(np.full((1024, 1024), number, np.float32))  # @made
    frame.block_until_ready()
    return frame


def remember(number):
    seen[number] = on_device(number)  # @sent


for number in range(10):
    remember(number)  # @run
stats = jax.devices()[0].memory_stats() or {}
print(stats.get("pool_bytes", 0), flush=True)
os._exit(0)
