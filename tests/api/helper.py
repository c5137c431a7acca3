# SPDX-License-Identifier: MIT
"""helper.c for Python: `allocate(bytes)` and so on, and the places that reports must name."""

import ctypes
import os
import re

_HERE = os.path.dirname(os.path.realpath(__file__))
_library = ctypes.CDLL(os.environ["HELPER_LIBRARY"])
for _name, _answer in (("allocate", ctypes.c_uint64), ("other", ctypes.c_uint64),
                       ("pinned", ctypes.c_void_p), ("free", None), ("lose", None)):
    _function = getattr(_library, "helper_" + _name)
    _function.restype = _answer
    _function.argtypes = [ctypes.c_uint64 if _name == "free" else ctypes.c_size_t]
    globals()[_name] = _function


def place(marker, function=None):
    """"helper_allocate /abs/helper.c:22" of the marker "allocate"."""
    path = os.path.join(_HERE, "helper.c")
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if re.search(r"/\* @%s \*/" % marker, line):
                return "helper_%s %s:%d" % (function or marker, path, number)
    raise KeyError(marker)


class Buffer:
    """A device array as frameworks make them: frees itself."""

    def __init__(self, size):
        self.address = allocate(size)
        self.cycle = None

    @property
    def __cuda_array_interface__(self):
        return {"data": (self.address, False), "shape": (1,), "typestr": "|u1", "version": 3}

    def __del__(self):
        free(self.address)
