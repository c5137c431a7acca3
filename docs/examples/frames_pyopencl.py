# SPDX-License-Identifier: MIT
# Sends ten pictures of 4 MiB through the device, one after the other. None is freed: a buffer
# made with USE_HOST_PTR keeps its array alive, and the array keeps its buffer. Python's garbage
# collector does not find this cycle.
import numpy as np
import pyopencl as cl

context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)


class Frame(np.ndarray):
    def on_device(self):
        if not hasattr(self, "buffer"):
            flags = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR
            self.buffer = cl.Buffer(context, flags, hostbuf=self)  # @made
        return self.buffer


def brightest(number):
    frame = np.full((1024, 1024), number, np.float32).view(Frame)
    corner = np.empty(1, np.float32)
    cl.enqueue_copy(queue, corner, frame.on_device())  # @sent
    return float(corner[0])


for number in range(10):
    print(brightest(number))  # @run
