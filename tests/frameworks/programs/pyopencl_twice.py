# SPDX-License-Identifier: MIT
# A second release: PyOpenCL refuses it, the driver sees none.
import pyopencl as cl

ctx = cl.create_some_context(interactive=False)
device_data = cl.Buffer(ctx, cl.mem_flags.READ_WRITE, 1 << 20)
device_data.release()
try:
    device_data.release()
except cl.LogicError as error:
    print(error)
