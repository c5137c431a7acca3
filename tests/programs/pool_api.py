# SPDX-License-Identifier: MIT
"""What a Python program does: the example of docs/guides/pool.md, between a block that is freed and
one that is allocated."""

import ctypes
import os
import re
import sys

MIB = 1 << 20


def example():
    """The code of docs/guides/pool.md, as it stands there."""
    page = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../docs/guides/pool.md")
    with open(page, encoding="utf-8") as file:
        return re.search(r"```python\n(.*?)```", file.read(), re.S).group(1)


def allocate(driver, size):
    address = ctypes.c_ulonglong()
    if driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)):
        sys.exit("cuMemAlloc_v2")
    return address


def main():
    driver, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
    driver.cuInit(0)
    driver.cuCtxCreate_v2(ctypes.byref(context), 0, 0)
    driver.cuMemFree_v2(allocate(driver, 4 * MIB))
    names = {}
    exec(example(), names)  # prints
    print("trim:", names["trim"]() // MIB)
    held = allocate(driver, 2 * MIB)
    print("stats:", {name: value // MIB if name.endswith("bytes") else value
                     for name, value in names["stats"]().items()
                     if name in ("cached_bytes", "used_bytes", "hits", "native_allocations")})
    driver.cuMemFree_v2(held)


main()
