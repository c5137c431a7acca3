# SPDX-License-Identifier: MIT
"""Planted errors by CuPy's RawKernel, Triton, and an extension of PyTorch, one for each name:

    planted_frameworks.py cupy|triton|torch ERROR [clean]

GUARD_EXTENSION is the library that nvcc makes of extension.cu. Output and markers are as those of
planted.cu: each API has a line that makes the block, @victim_API, and one that uses it, @access_API."""

import ctypes
import os
import sys
import zlib

SIZE, ODD = 65536, 65000
CLEAN = sys.argv[3:4] == ["clean"]


def extra(count):
    return 0 if CLEAN else count


def say(what, function):
    """Calls FUNCTION, and prints its result or its error's kind."""
    try:
        print(what, function(), flush=True)
    except Exception as error:  # pylint: disable=broad-except
        print(what, type(error).__name__, flush=True)


class CuPy:
    """Arrays of CuPy, a kernel that NVRTC compiles, and CuPy's own copies."""

    def __init__(self):
        import cupy
        self.cupy = cupy
        self.stream = cupy.cuda.Stream(non_blocking=True)
        code = r"""
            extern "C" __global__ void write_bytes(unsigned char *block, long long from, long long count) {
                for (long long i = threadIdx.x; i < count; i += blockDim.x)
                    block[from + i] = (unsigned char)((from + i) % 97 + 1);
            }
            extern "C" __global__ void sum_bytes(int *sum, const unsigned char *block, long long count) {
                for (long long i = threadIdx.x; i < count; i += blockDim.x)
                    atomicAdd(sum, block[i]);
            }"""
        self.writer = cupy.RawKernel(code, "write_bytes")
        self.reader = cupy.RawKernel(code, "sum_bytes")

    def victim(self, size):
        return self.cupy.empty(size, dtype=self.cupy.uint8)  # @victim_cupy

    def bystander(self, size):
        return self.cupy.zeros(size, dtype=self.cupy.uint8)

    @staticmethod
    def address(block):
        return block.data.ptr

    handle = address

    def write(self, address, first, count, other=False):
        launched = self.stream if other else self.cupy.cuda.Stream.null
        with launched:
            self.writer((1,), (128,), (address, first, count))  # @access_cupy
        launched.synchronize()
        return "done"

    def sum(self, address, count):
        total = self.cupy.zeros(256, dtype=self.cupy.int32)
        self.reader((1,), (128,), (total, address, count))  # @access_cupy
        return int(total[0])

    def copy_in(self, address, count):
        data = bytes(count)
        self.cupy.cuda.runtime.memcpy(address, ctypes.cast(data, ctypes.c_void_p).value, count, 1)  # @access_cupy
        return "done"

    def copy_out(self, address, count):
        data = ctypes.create_string_buffer(count)
        self.cupy.cuda.runtime.memcpy(ctypes.addressof(data), address, count, 2)  # @access_cupy
        return "done"

    def fill(self, address, count):
        self.cupy.cuda.runtime.memset(address, 5, count)  # @access_cupy
        return "done"

    def content(self, block):
        return zlib.crc32(self.cupy.asnumpy(block).tobytes())

    def wait(self):
        self.cupy.cuda.Device().synchronize()


class Torch:
    """Tensors of PyTorch, and the kernels and copies of an extension."""

    def __init__(self):
        import torch
        self.torch = torch
        self.extension = ctypes.CDLL(os.environ["GUARD_EXTENSION"])

    def victim(self, size):
        return self.torch.empty(size, dtype=self.torch.uint8, device="cuda")  # @victim_torch

    def bystander(self, size):
        return self.torch.zeros(size, dtype=self.torch.uint8, device="cuda")

    @staticmethod
    def address(block):
        return block.data_ptr()

    handle = address

    def call(self, name, *arguments):
        wide = [ctypes.c_long(each) for each in arguments]
        return getattr(self.extension, "extension_" + name)(*wide)  # @access_torch

    def write(self, address, first, count, other=False):
        del other
        return self.call("write", address, first, count)

    def sum(self, address, count):
        total = self.torch.zeros(256, dtype=self.torch.int32, device="cuda")
        self.torch.cuda.synchronize()
        self.call("sum", total.data_ptr(), address, 0, count)
        return int(total[0])

    def copy_in(self, address, count):
        data = ctypes.create_string_buffer(count)
        return self.call("copy", address, ctypes.addressof(data), count)

    def copy_out(self, address, count):
        data = ctypes.create_string_buffer(count)
        return self.call("copy", ctypes.addressof(data), address, count)

    def fill(self, address, count):
        return self.call("set", address, 5, count)

    @staticmethod
    def content(block):
        return zlib.crc32(block.cpu().numpy().tobytes())

    def wait(self):
        self.torch.cuda.synchronize()


class Triton(Torch):
    """Tensors of PyTorch, and kernels of Triton. An address of a freed tensor is an integer."""

    def __init__(self):
        super().__init__()
        import triton
        import planted_triton
        self.triton, self.kernels = triton, planted_triton
        self.stream = self.torch.cuda.Stream()

    @staticmethod
    def handle(block):
        return block

    def victim(self, size):
        return self.torch.empty(size, dtype=self.torch.uint8, device="cuda")  # @victim_triton

    def write(self, address, first, count, other=False):
        launched = self.stream if other else self.torch.cuda.current_stream()
        with self.torch.cuda.stream(launched):
            grid = (self.triton.cdiv(count, 1024),)
            self.kernels.write_bytes[grid](address, first, count, BLOCK=1024)  # @access_triton
        launched.synchronize()
        return "done"

    def sum(self, address, count):
        total = self.torch.zeros(256, dtype=self.torch.int32, device="cuda")
        grid = (self.triton.cdiv(count, 1024),)
        self.kernels.sum_bytes[grid](total, address, count, BLOCK=1024)  # @access_triton
        return int(total[0])


def over_by(api, size, count):
    block = api.victim(size)
    say("write", lambda: api.write(api.handle(block), 0, size + extra(count)))
    if CLEAN:
        say("content", lambda: api.content(block))


def freed_or_not(api, use):
    """Makes a block, and drops it unless CLEAN. USE has its address then."""
    block = api.victim(SIZE)
    api.write(api.handle(block), 0, SIZE)
    api.wait()
    address = api.address(block)
    if not CLEAN:
        del block
    say("use", lambda: use(address))


def before(api):
    block = api.victim(SIZE)
    say("write", lambda: api.write(api.handle(block), -extra(16), SIZE))


def read_behind(api):
    block = api.victim(SIZE)
    api.write(api.handle(block), 0, SIZE)
    say("sum", lambda: api.sum(api.handle(block), SIZE + extra(256)) and "done")


def past(use):
    """USE goes 16 bytes past the end."""
    def program(api):
        block = api.victim(SIZE)
        api.write(api.handle(block), 0, SIZE)
        say("use", lambda: use(api)(api.address(block), SIZE + extra(16)))
    return program


def across(api):
    """A copy from one of several tensors, which may lie side by side, into the next."""
    blocks = sorted((api.victim(SIZE) for _ in range(8)), key=api.address)
    say("use", lambda: api.copy_in(api.address(blocks[3]), SIZE + extra(SIZE // 2)))


def inside(api):
    block = api.victim(SIZE)
    say("write", lambda: api.write(api.handle(block), 1024, 1000 + extra(16)))


def trap_reuse(api):
    for turn in range(30):
        block = api.victim(1000 + turn * 4099)
        say("write", lambda: api.write(api.handle(block), 0, len(block)))
        say("content", lambda: api.content(block))


PROGRAMS = {
    "over_1": lambda api: over_by(api, SIZE, 1),
    "over_256": lambda api: over_by(api, SIZE, 256),
    "over_4096": lambda api: over_by(api, SIZE, 4096),
    "slack_1": lambda api: over_by(api, ODD, 1),
    "before_16": before,
    "read_behind": read_behind,
    "write_freed": lambda api: freed_or_not(api, lambda at: api.write(at, 0, SIZE)),
    "write_freed_stream": lambda api: freed_or_not(api, lambda at: api.write(at, 64, 1, True)),
    "read_freed": lambda api: freed_or_not(api, lambda at: api.sum(at, SIZE) and "done"),
    "copy_past": past(lambda api: api.copy_in),
    "copy_back_past": past(lambda api: api.copy_out),
    "memset_past": past(lambda api: api.fill),
    "copy_from_freed": lambda api: freed_or_not(api, lambda at: api.copy_out(at, SIZE)),
    "copy_into_freed": lambda api: freed_or_not(api, lambda at: api.copy_in(at + 4096, 100)),
    "copy_across": across,
    "inside": inside,
    "trap_reuse": trap_reuse,
}


def main():
    api = {"cupy": CuPy, "torch": Torch, "triton": Triton}[sys.argv[1]]()
    around = [api.bystander(SIZE << each) for each in range(3)]
    del around[1]
    PROGRAMS[sys.argv[2]](api)


main()
