# SPDX-License-Identifier: MIT
"""What the programs of this folder allocate with. Each allocation is written down beside what
CPython itself says of the frames at that moment: the report must say the same."""

import ctypes
import json
import os
import sys

DEPTH = int(os.environ.get("GPULEAK_STACK_DEPTH", "64"))
HELPER = os.environ["PYTHON_HELPER"]
EXPECTED = os.open(os.environ["PYTHON_EXPECTED"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

released = ctypes.CDLL("libcuda.so.1")  # without the GIL
held = ctypes.PyDLL("libcuda.so.1")     # with it
helper = ctypes.CDLL(HELPER)
helper_held = ctypes.PyDLL(HELPER)


def start():
    device, context = ctypes.c_int(), ctypes.c_void_p()
    for result in (released.cuInit(0), released.cuDeviceGet(ctypes.byref(device), 0),
                   released.cuDevicePrimaryCtxRetain(ctypes.byref(context), device),
                   released.cuCtxSetCurrent(context)):
        assert result == 0


def on_new_threads(work):
    """WORK, for threads that have no context yet."""
    def worker(*arguments):
        assert released.cuCtxSetCurrent(context) == 0
        return work(*arguments)

    context = ctypes.c_void_p()
    released.cuCtxGetCurrent(ctypes.byref(context))
    return worker


def write(size, stack, blocks=1, fd=EXPECTED, dumps=json.dumps, write=os.write):
    write(fd, (dumps([size, blocks, stack]) + "\n").encode())


def stack_of(frame, depth=DEPTH, getattr=getattr, len=len):
    stack = []
    while frame and len(stack) < depth:
        code = frame.f_code
        stack.append([getattr(code, "co_qualname", code.co_name), code.co_filename,
                      frame.f_lineno])
        frame = frame.f_back
    return stack


def note(size, write=write, stack_of=stack_of, getframe=sys._getframe):
    """To be called on the line that allocates."""
    write(size, stack_of(getframe(1)))


def alloc(size, library=released, note=note, ctypes=ctypes):
    address = ctypes.c_uint64()
    where = ctypes.byref(address)
    note(size); result = library.cuMemAlloc_v2(where, ctypes.c_size_t(size))
    assert result == 0
    return address


def free(address, library=released):
    assert library.cuMemFree_v2(address) == 0
