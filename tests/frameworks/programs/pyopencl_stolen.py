# SPDX-License-Identifier: MIT
# Two owners of one reference, as when a handle goes through another library: the second release
# is the driver's to refuse.
import pyopencl as cl

ctx = cl.create_some_context(interactive=False)


def lend(buffer):
    return cl.Buffer.from_int_ptr(buffer.int_ptr, retain=False)


def give_back(buffer):
    buffer.release()  # @second


buffer = cl.Buffer(ctx, cl.mem_flags.READ_WRITE, 5000)  # @made
lent = lend(buffer)
buffer.release()  # @first
try:
    give_back(lent)  # @call
except cl.Error as error:
    print(type(error).__name__)
