# SPDX-License-Identifier: MIT
# Ten buffers made at one line, lost in circles; between the line and its caller lies a generator,
# which the interpreter runs in another way from the second time on.
import numpy as np
import pyopencl as cl

context = cl.create_some_context(interactive=False)


class Frame(np.ndarray):
    pass


def lose(number):
    frame = np.full(250, number, np.float32).view(Frame)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR
    frame.buffer = cl.Buffer(context, flags, hostbuf=frame)  # @made
    return number


print(sum(lose(number) for number in range(10)))  # @sum
