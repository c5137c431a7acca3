# SPDX-License-Identifier: MIT
# us of a malloc and free by CuPy's own pool through Python, for the bytes that each argument says:
# the median of seven times 10,000. One JSON line each.
import json
import statistics
import sys
import time
import cupy

pool = cupy.cuda.MemoryPool()
for size in map(int, sys.argv[1:]):
    def pairs(count):
        for _ in range(count):
            memory = pool.malloc(size)
            del memory

    pairs(100)
    times = []
    for _ in range(7):
        start = time.perf_counter()
        pairs(10000)
        times.append((time.perf_counter() - start) / 10000 * 1e9)
    print(json.dumps({"what": "pair", "allocator": "cupy", "bytes": size, "threads": 1, "frames": 0, "kept": 0,
                      "ns": statistics.median(times), "ns_lowest": min(times)}), flush=True)
