# SPDX-License-Identifier: MIT
"""What a Python program without the package gpuleak does: it calls the functions of gpuleak.h between
a block that is freed and one that is allocated."""

import ctypes
import sys

MIB = 1 << 20


preloaded = ctypes.CDLL(None)
NAMES = """size mode turned_off used_bytes cached_bytes pending_bytes reserved_bytes waste_bytes
    peak_used_bytes peak_reserved_bytes hits native_allocations native_frees frees
    native_calls_saved tickets shared_tickets waits wait_ns trims trimmed_blocks trimmed_bytes
    rescued refused injected_failures""".split()


class PoolStats(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in NAMES]


def trim():
    """Returns unused blocks to the driver. Returns their bytes: 0 without gpuleak or a pool."""
    if not hasattr(preloaded, "gpuleak_pool_trim"):
        return 0
    preloaded.gpuleak_pool_trim.restype = ctypes.c_size_t
    return preloaded.gpuleak_pool_trim()


def stats():
    """Returns {name: value} of the pool's statistics: {} without gpuleak or a pool."""
    ret = PoolStats(size=ctypes.sizeof(PoolStats))
    if not hasattr(preloaded, "gpuleak_pool_stats") or \
            preloaded.gpuleak_pool_stats(ctypes.byref(ret)):
        return {}
    return {name: getattr(ret, name) for name in NAMES}


def allocate(driver, size):
    address = ctypes.c_ulonglong()
    if driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)):
        sys.exit("cuMemAlloc_v2")
    return address


def main():
    driver, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
    driver.cuInit(0)
    driver.cuCtxCreate_v2(ctypes.byref(context), 0, 0)
    driver.cuMemFree_v2(allocate(driver, 4 * MIB))
    print("trim:", trim() // MIB)
    held = allocate(driver, 2 * MIB)
    print("stats:", {name: value // MIB if name.endswith("bytes") else value
                     for name, value in stats().items()
                     if name in ("cached_bytes", "used_bytes", "hits", "native_allocations")})
    driver.cuMemFree_v2(held)


main()
