# SPDX-License-Identifier: MIT
# Sends ten pictures of 4 MiB to the device, and keeps them in a dictionary that is never emptied.
# The process ends by os._exit, as workers do. With the argument "none" each picture is a block
# of its own; otherwise CuPy's pool allocates the memory. Prints the number of bytes in that pool.
import os
import sys
import numpy as np
import cupy

if sys.argv[1:] == ["none"]:
    cupy.cuda.set_allocator(None)
seen = {}


def on_device(number):
    frame = cupy.empty((1024, 1024), cupy.float32)  # @made
    frame.set(np.full((1024, 1024), number, np.float32))
    return frame


def remember(number):
    seen[number] = on_device(number)  # @sent


for number in range(10):
    remember(number)  # @run
print(cupy.get_default_memory_pool().total_bytes(), flush=True)
os._exit(0)
