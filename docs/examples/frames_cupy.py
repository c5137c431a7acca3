# SPDX-License-Identifier: MIT
# Ten pictures of 4 MiB go to the device and are kept in a dictionary that nobody empties; the
# process ends as a worker does, without a word to Python. With the argument "none" each is a
# block of its own; otherwise CuPy's pool takes the memory. Prints what CuPy says it holds.
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
