# SPDX-License-Identifier: MIT
# The second example of "How to release memory in PyCUDA?" in PyOpenCL: each is released by hand.
import numpy as np
import pyopencl as cl

ctx = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(ctx)

def process_data_good():
    size = 1024 * 1024
    for _ in range(10):
        host_data = np.random.rand(size).astype(np.float32)
        device_data = cl.Buffer(ctx, cl.mem_flags.READ_WRITE, host_data.nbytes)
        cl.enqueue_copy(queue, device_data, host_data)
        device_data.release() # Explicit release of GPU memory
        # device_data is reassigned in the next loop
        device_data = None

process_data_good()
