# SPDX-License-Identifier: MIT
# Ten pictures of 4 MiB go through the device one after the other, and all stay there: a buffer
# made with USE_HOST_PTR keeps its array alive, the array keeps its buffer, and Python's garbage
# collector does not see that this is a circle.
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
