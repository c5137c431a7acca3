# SPDX-License-Identifier: MIT
"""Python's multiprocessing with GPU calls: METHOD is how a pool of two starts. Each worker
allocates one block and loses it, and frees another; then the parent does the same with other
sizes. With "parent first", the parent makes its calls before it forks, and workers make none."""

import ctypes
import multiprocessing
import os
import sys


def use(lost, freed):
    driver = ctypes.CDLL("libcuda.so.1")
    context, address = ctypes.c_void_p(), ctypes.c_ulonglong()
    for answer in (driver.cuInit(0), driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0),
                   driver.cuCtxSetCurrent(context),
                   driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(lost)),
                   driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(freed)),
                   driver.cuMemFree_v2(address)):
        if answer:
            sys.exit("%d" % answer)


def work(barrier, busy):
    barrier.wait()  # so that neither takes the other's task
    if busy:
        use(1000, 2000)
    return os.getpid() != 0


def main():
    method, first = sys.argv[1], sys.argv[2:] == ["parent first"]
    if first:
        use(3000, 4000)
    start = multiprocessing.get_context(method)
    with start.Manager() as manager:
        barrier = manager.Barrier(2)
        with start.Pool(2) as pool:
            print(pool.starmap(work, [(barrier, not first)] * 2, chunksize=1))
            pool.close()
            pool.join()
    if not first:
        use(3000, 4000)


if __name__ == "__main__":
    main()
