#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What Python frames cost: python.py BUILD [FRAMES]. Prints, for the interpreter that runs it, ns
for the key of that many frames (the price of every recorded call) and for their names (the price
of a stack that is new), least of 99 runs. With the library preloaded (python.py BUILD FRAMES
pair) ns of a cuMemAlloc/cuMemFree pair, called from below FRAMES frames and, for the difference,
from a thread that Python does not know."""

import ctypes
import os
import platform
import sys
import time

BUILD = sys.argv[1]
FRAMES = int(sys.argv[2]) if len(sys.argv) > 2 else 20


def below(frames, function):
    """FUNCTION's result, called with so many frames in all."""
    return function() if frames <= 1 else below(frames - 1, function)


def least(function):
    """Of so many short runs: what other processes take is not ours."""
    return min(function() for _ in range(99))


def raw():
    bench = ctypes.PyDLL(os.path.join(BUILD, "tests/bench/libbench-python.so"))
    for name in ("bench_key", "bench_first"):
        getattr(bench, name).restype = ctypes.c_double
    if not bench.bench_start():
        sys.exit("the interpreter was not found or is not known")

    def at_depth(name, times):
        return least(lambda: getattr(bench, name)(FRAMES, times))

    depth = below(FRAMES, lambda: bench.bench_frames(64))
    key = below(FRAMES, lambda: at_depth("bench_key", 2000))
    first = below(FRAMES, lambda: at_depth("bench_first", 200))
    print("%-8s %2d of %2d frames: %6.1f ns known again, %7.1f ns new" % (
        platform.python_version(), min(FRAMES, depth), depth, key, first))


def pair():
    """For run.sh: the library is preloaded."""
    helper = ctypes.CDLL(os.path.join(BUILD, "tests/python/libpython-helper.so"))
    cuda = ctypes.CDLL("libcuda.so.1")
    device, context = ctypes.c_int(), ctypes.c_void_p()
    if (cuda.cuInit(0) or cuda.cuDeviceGet(ctypes.byref(device), 0) or
            cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) or
            cuda.cuCtxSetCurrent(context)):
        sys.exit("no context")
    times = 1000

    def timed(function):
        start = time.perf_counter_ns()
        function(ctypes.c_size_t(64), times)
        return (time.perf_counter_ns() - start) / times

    known = below(FRAMES, lambda: least(lambda: timed(helper.helper_repeat)))
    foreign = least(lambda: timed(helper.helper_repeat_on_thread))
    print("%-8s a pair below %d frames: %6.1f ns, on a thread without Python: %6.1f ns" % (
        platform.python_version(), FRAMES, known, foreign))


if len(sys.argv) > 3:
    pair()
else:
    raw()
