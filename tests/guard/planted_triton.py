# SPDX-License-Identifier: MIT
"""The kernels of planted_frameworks.py for Triton, which reads them from a file. Imports nothing
that the other APIs need."""

import triton
import triton.language as tl


@triton.jit
def write_bytes(address, first, count, BLOCK: tl.constexpr):
    each = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    block = address.to(tl.pointer_type(tl.uint8))
    value = ((first + each) % 97 + 1).to(tl.uint8)
    tl.store(block + first + each, value, mask=each < count)


@triton.jit
def sum_bytes(total, address, count, BLOCK: tl.constexpr):
    each = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    block = address.to(tl.pointer_type(tl.uint8))
    values = tl.load(block + each, mask=each < count, other=0)
    tl.atomic_add(total, tl.sum(values.to(tl.int32)))
