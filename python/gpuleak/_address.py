# SPDX-License-Identifier: MIT
"""Finds the address or handle of an object of a framework. Imports no framework: uses the
attributes that the object has."""

import ctypes
import operator


def _cuda_array(obj):
    return obj.__cuda_array_interface__["data"][0]


def _host_array(obj):
    return obj.__array_interface__["data"][0]


def _called(name):
    return lambda obj: getattr(obj, name)()


# Attribute, and how to get the number from an object that has it; the first one that works.
_WAYS = (
    ("__cuda_array_interface__", _cuda_array),  # CuPy, Numba, PyTorch, PyCUDA's GPUArray, JAX
    ("data_ptr", _called("data_ptr")),  # PyTorch, also pinned tensors
    ("int_ptr", operator.attrgetter("int_ptr")),  # PyOpenCL: cl_mem and other handles
    ("base_data", lambda obj: address_of(obj.base_data)),  # PyOpenCL's Array
    ("ptr", operator.attrgetter("ptr")),  # CuPy's MemoryPointer, Memory
    ("gpudata", lambda obj: int(obj.gpudata)),  # PyCUDA's GPUArray
    ("unsafe_buffer_pointer", _called("unsafe_buffer_pointer")),  # JAX
    ("__array_interface__", _host_array),  # NumPy: pinned memory
    ("__index__", operator.index),
    ("__int__", int),  # PyCUDA's DeviceAllocation
)


def address_of(obj):
    """Returns the address or handle of OBJ. Raises TypeError if it has none."""
    if isinstance(obj, int):
        return obj
    if isinstance(obj, ctypes._Pointer):
        return ctypes.cast(obj, ctypes.c_void_p).value or 0
    if isinstance(obj, ctypes._SimpleCData):
        return obj.value or 0
    for name, way in _WAYS:
        try:
            if hasattr(obj, name):
                return int(way(obj))
        except (TypeError, ValueError, AttributeError, KeyError, RuntimeError):
            continue
    raise TypeError("%s has no device address: give a number, or an object with "
                    "__cuda_array_interface__, data_ptr() or int_ptr" % type(obj).__name__)
