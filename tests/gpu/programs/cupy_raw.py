# SPDX-License-Identifier: MIT
# Leaks three raw runtime allocations (3 x 1 MiB), frees a fourth, and uses CuPy's pool.
import cupy


def leak_three():
    return [cupy.cuda.runtime.malloc(1 << 20) for _ in range(3)]


pointers = leak_three()
fourth = cupy.cuda.runtime.malloc(1 << 20)
cupy.cuda.runtime.free(fourth)
a = cupy.arange(1000, dtype=cupy.float32)
print(float((a * 2).sum()))
