# SPDX-License-Identifier: MIT
"""The words of reports for kinds of memory. Made from ledger/kinds.def by
tests/scripts/python_kinds.py --write."""

WORDS = {
    "device": "device memory",
    "managed": "managed memory",
    "pinned": "pinned host memory",
    "registered": "registered host memory",
    "stream-ordered": "stream-ordered memory",
    "mempool": "memory pool",
    "array": "array",
    "vmm-handle": "physical memory",
    "vmm-reservation": "reserved addresses",
    "vmm-mapping": "mapped memory",
    "ipc": "memory of another process",
    "external": "external memory",
    "graph": "graph memory",
    "suballocation": "suballocation",
    "cl-buffer": "OpenCL buffer",
    "cl-sub-buffer": "OpenCL sub-buffer",
    "cl-image": "OpenCL image",
    "cl-pipe": "OpenCL pipe",
    "cl-svm": "OpenCL shared virtual memory",
    "cl-usm": "OpenCL unified shared memory",
    "object/context": "context",
    "object/primary-context": "primary context",
    "object/green-context": "green context",
    "object/module": "module",
    "object/library": "library",
    "object/stream": "stream",
    "object/event": "event",
    "object/graph": "graph",
    "object/graph-exec": "executable graph",
    "object/texture": "texture object",
    "object/surface": "surface object",
    "object/semaphore": "external semaphore",
    "object/user-object": "user object",
    "object/cl-context": "OpenCL context",
    "object/cl-event": "OpenCL event",
    "object/cl-kernel": "OpenCL kernel",
    "object/cl-program": "OpenCL program",
    "object/cl-queue": "OpenCL command queue",
    "object/cl-sampler": "OpenCL sampler",
}


def words_of(kind):
    """Returns what a report calls KIND: "device memory" for "device"."""
    return WORDS.get(kind, kind)
