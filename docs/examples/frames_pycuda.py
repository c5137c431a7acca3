# SPDX-License-Identifier: MIT
# Sends ten pictures of 4 MiB through the device, one after the other. None is freed: the
# allocation references its frame, and the frame its allocation. Python's garbage collector does
# not find this cycle, because PyCUDA's objects hide their references.
import numpy as np
import pycuda.autoinit
import pycuda.driver as cuda


class Frame:
    def __init__(self, pixels):
        self.pixels = pixels
        self.memory = None

    def on_device(self):
        if self.memory is None:
            self.memory = cuda.mem_alloc(self.pixels.nbytes)  # @made
            self.memory.frame = self
            cuda.memcpy_htod(self.memory, self.pixels)
        return self.memory


def size(number):
    frame = Frame(np.full((1024, 1024), number, np.float32))
    frame.on_device()  # @sent
    return frame.pixels.nbytes


for number in range(10):
    print(size(number))  # @run
