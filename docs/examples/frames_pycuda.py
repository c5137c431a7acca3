# SPDX-License-Identifier: MIT
# Ten pictures of 4 MiB go through the device one after the other, and all stay there: the
# allocation knows its frame, the frame its allocation, and Python's garbage collector does not
# see that this is a circle, since PyCUDA's objects hide what they refer to.
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
