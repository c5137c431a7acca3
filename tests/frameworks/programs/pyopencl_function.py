# SPDX-License-Identifier: MIT
# The third example of "How to release memory in PyCUDA?" in PyOpenCL, where a buffer has a size.
import numpy as np
import pyopencl as cl

ctx = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(ctx)

def process_data_function(device_data_in):
    size = device_data_in.size
    device_data_temp = cl.Buffer(ctx, cl.mem_flags.READ_WRITE, size)
    # Some computation using both device_data_in and device_data_temp
    # ...
    device_data_temp.release()

def main():
    size = 1024 * 1024
    host_data = np.random.rand(size).astype(np.float32)
    device_data = cl.Buffer(ctx, cl.mem_flags.READ_WRITE, host_data.nbytes)
    cl.enqueue_copy(queue, device_data, host_data)
    process_data_function(device_data)
    device_data.release()

if __name__ == "__main__":
    main()
