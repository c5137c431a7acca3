# SPDX-License-Identifier: MIT
# The first example of "How to release memory in PyCUDA?", which says that it leaks 10 blocks. PyCUDA
# frees each of them itself, when its last reference goes.
import pycuda.driver as cuda
import pycuda.autoinit
import numpy as np

def process_data_bad():
    size = 1024 * 1024
    for _ in range(10):
        host_data = np.random.rand(size).astype(np.float32)
        device_data = cuda.mem_alloc(host_data.nbytes)
        cuda.memcpy_htod(device_data, host_data)
        # Intentional lack of device_data.free() here
        # device_data is reassigned in next loop causing a memory leak
        device_data = None
process_data_bad()
