# SPDX-License-Identifier: MIT
# "Calling free() more than once will crash": PyCUDA refuses the second one, the driver sees none.
import pycuda.autoinit
import pycuda.driver as cuda

device_data = cuda.mem_alloc(1 << 20)
device_data.free()
try:
    device_data.free()
except cuda.LogicError as error:
    print(error)
