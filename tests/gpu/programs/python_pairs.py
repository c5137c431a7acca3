# SPDX-License-Identifier: MIT
# What an allocation and its free cost through Python: python_pairs.py FRAMEWORK COUNT FRAMES, with
# FRAMES Python functions on the stack. Prints the median of five times COUNT pairs, in ns a pair.
import statistics
import sys
import time

framework, count, depth = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
if framework == "cupy":
    from cupy.cuda import runtime

    def pair():
        runtime.free(runtime.malloc(1 << 16))
elif framework == "pycuda":
    import pycuda.autoinit
    import pycuda.driver as cuda

    def pair():
        cuda.mem_alloc(1 << 16).free()
elif framework == "torch":  # with PYTORCH_NO_CUDA_MEMORY_CACHING=1
    import torch

    def pair():
        torch.empty(1 << 16, dtype=torch.uint8, device="cuda")
else:
    sys.exit("cupy, pycuda or torch")


def time_pairs():
    start = time.perf_counter_ns()
    for _ in range(count):
        pair()
    return (time.perf_counter_ns() - start) / count


def below(frames):
    return time_pairs() if frames <= 1 else below(frames - 1)


below(depth)
print("%.0f" % statistics.median(below(depth) for _ in range(5)))
