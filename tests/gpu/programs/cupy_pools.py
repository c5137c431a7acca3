# SPDX-License-Identifier: MIT
# Fills the CuPy pool that the argument names (device, managed, async, pinned), gives some
# back, and prints what CuPy says it holds, as figures.py reads it; ends without any clean-up.
import json
import os
import sys
import cupy
import numpy

which = sys.argv[1]
kept = []
if which == "pinned":
    pool = cupy.cuda.PinnedMemoryPool()
    cupy.cuda.set_pinned_memory_allocator(pool.malloc)
    kept = [cupy.cuda.alloc_pinned_memory(1000000 * (i + 1)) for i in range(5)]
    del kept[1], kept[2]
    figures = [{"name": "blocks kept + free in the pool", "blocks": len(kept) + pool.n_free_blocks(),
                "kinds": ["pinned"], "module": "pinned_memory"}]
else:
    if which == "async":
        pool = cupy.cuda.MemoryAsyncPool()
    elif which == "managed":
        pool = cupy.cuda.MemoryPool(cupy.cuda.malloc_managed)
    else:
        pool = cupy.cuda.MemoryPool()
    cupy.cuda.set_allocator(pool.malloc)
    for i in range(200):
        kept.append(cupy.empty((i * 7919) % 3000000 + 1, dtype=numpy.uint8))
        if i % 3 == 0:
            kept.pop(len(kept) // 2)
    a = cupy.arange(100000, dtype=cupy.float32)
    b = (a * 2).sum()
    cupy.cuda.Device().synchronize()
    kind = {"device": "device", "managed": "managed", "async": "stream-ordered"}[which]
    held = pool.used_bytes() if which == "async" else pool.total_bytes()
    figures = [{"name": "used_bytes" if which == "async" else "total_bytes", "bytes": held,
                "kinds": [kind], "module": "memory."}]
print(json.dumps({"figures": figures}), flush=True)
os._exit(0)
