# SPDX-License-Identifier: MIT
"""Allocates four blocks by CUDA's driver and frees all but the first N: standin_leak.py N. Needs no
package: it calls libcuda.so.1, for which the stand-in driver stands in."""

import ctypes
import sys

cuda = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()


def must(status):
    if status:
        sys.exit("the driver refused a call with %d" % status)


def allocate(size):
    address = ctypes.c_uint64()
    must(cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)))
    return address


must(cuda.cuInit(0))
must(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
must(cuda.cuCtxSetCurrent(context))
for block in [allocate(1 << 20) for _ in range(4)][int(sys.argv[1]):]:
    must(cuda.cuMemFree_v2(block))
