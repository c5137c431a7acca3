# SPDX-License-Identifier: MIT
# The first example of "How to release memory in PyCUDA?" in PyOpenCL: nobody releases the buffers.
# PyOpenCL does, when the last reference goes.
import numpy as np
import pyopencl as cl

ctx = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(ctx)

def process_data_bad():
    size = 1024 * 1024
    for _ in range(10):
        host_data = np.random.rand(size).astype(np.float32)
        device_data = cl.Buffer(ctx, cl.mem_flags.READ_WRITE, host_data.nbytes)
        cl.enqueue_copy(queue, device_data, host_data)
        # Intentional lack of device_data.release() here
        # device_data is reassigned in next loop causing a memory leak
        device_data = None
process_data_bad()
