# SPDX-License-Identifier: MIT
# 1,000 x (b = a * 2; c = b + a) over 8 MiB arrays, after 10 to warm up, with the allocator that
# the argument names: pool (CuPy's own), none, async (stream-ordered, that keeps what it has).
# Prints a sum over the results, and last the loop's ms, of as many loops as asked the median.
import sys
import cupy
import timed

which = sys.argv[1]
if which == "none":
    cupy.cuda.set_allocator(None)
elif which == "async":
    pool = cupy.cuda.MemoryAsyncPool()
    cupy.cuda.set_allocator(pool.malloc)
    handle = cupy.cuda.runtime.deviceGetDefaultMemPool(0)
    cupy.cuda.runtime.memPoolSetAttribute(handle, cupy.cuda.runtime.cudaMemPoolAttrReleaseThreshold, (1 << 63) - 1)
elif which != "pool":
    sys.exit("pool, none or async")

a = cupy.arange(1 << 20, dtype=cupy.float64) / 1024


def loop(count):
    for _ in range(count):
        b = a * 2
        c = b + a
    return c


def measured():
    global c
    c = loop(1000)
    cupy.cuda.Device().synchronize()


loop(10)
cupy.cuda.Device().synchronize()
ms = timed.median_ms(measured, *sys.argv[2:3])
assert bool((c == 3 * a).all())
print("sum %.6f" % float(c.sum()))
print("%.2f" % ms)
