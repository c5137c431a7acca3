# SPDX-License-Identifier: MIT
# Sends ten pictures of 4 MiB to the device, and keeps them in a dictionary that is never emptied.
# The process ends by os._exit, as workers do. With XLA_PYTHON_CLIENT_ALLOCATOR=platform each
# picture is a block of its own; otherwise XLA's pool allocates the memory. Prints the number of
# bytes in that pool, 0 without a pool.
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
