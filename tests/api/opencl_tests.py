# SPDX-License-Identifier: MIT
"""The Python module and PyOpenCL: its handles, a leak of its buffers, its memory pool."""

import json
import unittest

import pyopencl as cl
import pyopencl.tools

import gpuleak

CONTEXT = cl.Context([cl.get_platforms()[0].get_devices()[0]])
QUEUE = cl.CommandQueue(CONTEXT)
FLAGS = cl.mem_flags.READ_WRITE


class OpenCL(unittest.TestCase):
    def setUp(self):
        self.kept = []

    def test_who(self):
        buffer = cl.Buffer(CONTEXT, FLAGS, 4096)
        block = gpuleak.who(buffer)
        self.assertEqual((block.api, block.kind, block.bytes, block.address, block.references),
                         ("clCreateBuffer", "cl-buffer", 4096, buffer.int_ptr, 1))
        self.assertEqual(gpuleak.who(QUEUE).kind, "object/cl-queue")
        self.assertTrue(any("pyopencl" in (frame.module or "") for frame in block.stack.frames))
        number = buffer.int_ptr
        buffer.release()
        self.assertIsNone(gpuleak.who(number))

    def test_check(self):
        with gpuleak.check():
            cl.Buffer(CONTEXT, FLAGS, 1000)
        with self.assertRaisesRegex(gpuleak.GpuLeakError, "leaked 3,000 bytes .* in 2 blocks"):
            with gpuleak.check():
                self.kept += [cl.Buffer(CONTEXT, FLAGS, 1000), cl.Buffer(CONTEXT, FLAGS, 2000)]
        with gpuleak.check():
            with gpuleak.ignoring():
                self.kept.append(cl.Buffer(CONTEXT, FLAGS, 500))
            self.kept.append(cl.Buffer(CONTEXT, FLAGS, 600))
            self.assertTrue(gpuleak.ignore(self.kept[-1]))

    def test_pool(self):
        pool = cl.tools.MemoryPool(cl.tools.ImmediateAllocator(QUEUE))
        with self.assertRaisesRegex(gpuleak.GpuLeakError, "in 1 block,"):
            with gpuleak.check():
                pool.allocate(10000)  # goes back to the pool, which keeps it
        pool.free_held()
        with gpuleak.check():
            pool.allocate(10000)
            pool.free_held()

    def test_report(self):
        mark = gpuleak.mark()
        self.kept.append(cl.Buffer(CONTEXT, FLAGS, 12345))
        report = json.loads(gpuleak.report("json", "--since", str(mark)))
        self.assertEqual([(leak["kind"], leak["bytes"]) for leak in report["leaks"]],
                         [("cl-buffer", 12345)])


if __name__ == "__main__":
    unittest.main()
