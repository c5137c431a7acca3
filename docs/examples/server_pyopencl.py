# SPDX-License-Identifier: MIT
# A service that answers requests for some seconds. It forgets to drop its history: the image of each
# fourth request.
import sys
import time

import numpy
import pyopencl

context = pyopencl.create_some_context(interactive=False)
queue = pyopencl.CommandQueue(context)
history = []


def load(request):
    return pyopencl.Buffer(context, pyopencl.mem_flags.READ_WRITE, 1 << 20)


def answer(request):
    image, scratch = load(request), load(request)
    pyopencl.enqueue_copy(queue, scratch, numpy.full(1 << 18, request, numpy.float32))
    if request % 4 == 0:
        history.append(image)
    scratch.release()


end = time.monotonic() + float(sys.argv[1])
number = 0
while time.monotonic() < end:
    answer(number)
    number += 1
    time.sleep(0.01)
print(number > 0 and "served")
