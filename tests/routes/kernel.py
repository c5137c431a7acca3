# SPDX-License-Identifier: MIT
"""A real kernel on whatever OpenCL there is: what it computes must not depend on a tracer."""
import numpy
import pyopencl

devices = [d for p in pyopencl.get_platforms() for d in p.get_devices()]
context = pyopencl.Context(devices[:1])
queue = pyopencl.CommandQueue(context)
program = pyopencl.Program(context, """
__kernel void square(__global const int *a, __global int *b)
{
    int i = get_global_id(0);
    b[i] = a[i] * a[i];
}""").build()
a = numpy.arange(1000, dtype=numpy.int32)
flags = pyopencl.mem_flags
source = pyopencl.Buffer(context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=a)
target = pyopencl.Buffer(context, flags.WRITE_ONLY, a.nbytes)
program.square(queue, a.shape, None, source, target)
b = numpy.empty_like(a)
pyopencl.enqueue_copy(queue, b, target).wait()
print(int(b.sum()), b[:5], b[-1])
try:
    pyopencl.Buffer(context, flags.READ_ONLY, 0)
except pyopencl.Error as error:
    print(type(error).__name__)
