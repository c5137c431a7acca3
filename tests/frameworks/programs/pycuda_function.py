# SPDX-License-Identifier: MIT
# The third example of "How to release memory in PyCUDA?", which never gets to its own frees: a
# DeviceAllocation has no size.
import pycuda.driver as cuda
import pycuda.autoinit
import numpy as np

def process_data_function(device_data_in):
    size = device_data_in.size
    device_data_temp = cuda.mem_alloc(size)
    # Some computation using both device_data_in and device_data_temp
    # ...
    device_data_temp.free()

def main():
    size = 1024 * 1024
    host_data = np.random.rand(size).astype(np.float32)
    device_data = cuda.mem_alloc(host_data.nbytes)
    cuda.memcpy_htod(device_data, host_data)
    process_data_function(device_data)
    device_data.free()

if __name__ == "__main__":
    main()
