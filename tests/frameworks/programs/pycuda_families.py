# SPDX-License-Identifier: MIT
# What else PyCUDA allocates, each kept from its end by a cycle that Python's collector can't see.
import sys
import numpy as np
import pycuda.autoinit
import pycuda.driver as cuda
from pycuda.tools import DeviceMemoryPool


def keep(owner):
    owner.me = owner  # Boost.Python's objects have a __dict__ that is not traversed


def pitched():
    keep(cuda.mem_alloc_pitch(1000, 7, 4)[0])  # @pitched


def managed():
    keep(cuda.managed_empty(1000, np.float32, mem_flags=cuda.mem_attach_flags.GLOBAL).base)  # @managed


def pinned():
    keep(cuda.pagelocked_empty(3000, np.uint8).base)  # @pinned


def array():
    descriptor = cuda.ArrayDescriptor()
    descriptor.width, descriptor.height, descriptor.num_channels = 64, 32, 1
    descriptor.format = cuda.array_format.FLOAT
    keep(cuda.Array(descriptor))  # @array


def pool():
    keep(cuda_pool.allocate(5000))  # @pool


cuda_pool = DeviceMemoryPool()
for one in sys.argv[1:]:
    globals()[one]()  # @call
