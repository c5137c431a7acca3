# SPDX-License-Identifier: MIT
# The second example of "How to release memory in PyCUDA?": each block is freed by hand.
import pycuda.driver as cuda
import pycuda.autoinit
import numpy as np

def process_data_good():
    size = 1024 * 1024
    for _ in range(10):
        host_data = np.random.rand(size).astype(np.float32)
        device_data = cuda.mem_alloc(host_data.nbytes)
        cuda.memcpy_htod(device_data, host_data)
        device_data.free() # Explicit release of GPU memory
        # device_data is reassigned in the next loop
        device_data = None

process_data_good()
