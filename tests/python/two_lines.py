# SPDX-License-Identifier: MIT
"""Two lines of Python behind one native call: two_lines.py STORY. Only the Python frames of keep()
and work() tell their blocks apart."""

import ctypes
import os
import sys

KIB, MIB = 1 << 10, 1 << 20
library = ctypes.CDLL("libcuda.so.1")
own = ctypes.CDLL(None)
SIZES = (9, 2, 7, 1, 8, 3, 6, 2, 9, 1, 5, 4)  # of the work in each step: no growth


def begin():
    device, context = ctypes.c_int(), ctypes.c_void_p()
    assert library.cuInit(0) == 0
    assert library.cuDeviceGet(ctypes.byref(device), 0) == 0
    assert library.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0
    assert library.cuCtxSetCurrent(context) == 0


def call(name, size):
    value = ctypes.c_uint64()
    argument = ctypes.create_string_buffer(16) if name == "cuModuleLoadData" else ctypes.c_size_t(size)
    result = getattr(library, name)(ctypes.byref(value), argument)
    return value if result == 0 else None


def keep(name="cuMemAlloc_v2"):
    return call(name, 64 * KIB)  # @keep


def work(name="cuMemAlloc_v2", size=MIB):
    return call(name, size)  # @work


def free(blocks):
    for block in blocks:
        assert library.cuMemFree_v2(block) == 0


def step():
    if hasattr(own, "gpuleak_step"):
        own.gpuleak_step(None)


def grow(steps):
    held = []
    for i in range(steps):
        free(held)
        held = [work() for _ in range(SIZES[i % len(SIZES)])]
        for _ in range(5):
            keep()
        step()


def constant(steps):
    for _ in range(100):
        work()
    for _ in range(steps):
        for _ in range(5):
            keep()
        step()


def told():
    """Grows by one step for each line of input."""
    for i, _ in enumerate(sys.stdin):
        grow(1)
        print(i, flush=True)


def accumulate():
    for _ in range(4000):
        keep()
        free([work()])


def refused():
    for _ in range(3):
        keep()
    for _ in range(2):
        work()
    assert work(size=1 << 40) is None


def costs():
    for _ in range(3):
        keep("cuModuleLoadData")
    for _ in range(2):
        work("cuModuleLoadData")


begin()
if sys.argv[1] in ("grow", "constant"):
    globals()[sys.argv[1]](12)
    os._exit(0)
globals()[sys.argv[1]]()
