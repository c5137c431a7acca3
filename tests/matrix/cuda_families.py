# SPDX-License-Identifier: MIT
"""The CUDA side of the matrix: every family of memory, the call that makes a block of it, the
call that ends it, and what a report must say. From here alone come the program's cells
(generate.py) and the expectations (run.py); nothing is asked of gpuleak."""

from rows import Family, Need

# Every call that a cell makes, with its parameters. Types are cuda_types.h's and the stand-in's.
CALLS = {
    "cuInit": "unsigned int",
    "cuDevicePrimaryCtxRetain": "CUcontext *, CUdevice",
    "cuCtxSetCurrent": "CUcontext",
    "cuIpcGetMemHandle": "CUipcMemHandle *, CUdeviceptr",
    "cuMemAlloc": "CUdeviceptr_v1 *, unsigned int",
    "cuMemAlloc_v2": "CUdeviceptr *, size_t",
    "cuMemAllocPitch": "CUdeviceptr_v1 *, unsigned int *, unsigned int, unsigned int, unsigned int",
    "cuMemAllocPitch_v2": "CUdeviceptr *, size_t *, size_t, size_t, unsigned int",
    "cuMemAllocManaged": "CUdeviceptr *, size_t, unsigned int",
    "cuMemFree": "CUdeviceptr_v1",
    "cuMemFree_v2": "CUdeviceptr",
    "cuMemAllocAsync": "CUdeviceptr *, size_t, CUstream",
    "cuMemAllocAsync_ptsz": "CUdeviceptr *, size_t, CUstream",
    "cuMemAllocFromPoolAsync": "CUdeviceptr *, size_t, CUmemoryPool, CUstream",
    "cuMemAllocFromPoolAsync_ptsz": "CUdeviceptr *, size_t, CUmemoryPool, CUstream",
    "cuMemFreeAsync": "CUdeviceptr, CUstream",
    "cuMemFreeAsync_ptsz": "CUdeviceptr, CUstream",
    "cuMemPoolCreate": "CUmemoryPool *, const CUmemPoolProps *",
    "cuMemPoolDestroy": "CUmemoryPool",
    "cuMemAllocHost": "void **, unsigned int",
    "cuMemAllocHost_v2": "void **, size_t",
    "cuMemHostAlloc": "void **, size_t, unsigned int",
    "cuMemFreeHost": "void *",
    "cuMemHostRegister": "void *, size_t, unsigned int",
    "cuMemHostRegister_v2": "void *, size_t, unsigned int",
    "cuMemHostUnregister": "void *",
    "cuArrayCreate": "CUarray *, const CUDA_ARRAY_DESCRIPTOR_v1 *",
    "cuArrayCreate_v2": "CUarray *, const CUDA_ARRAY_DESCRIPTOR *",
    "cuArray3DCreate": "CUarray *, const CUDA_ARRAY3D_DESCRIPTOR_v1 *",
    "cuArray3DCreate_v2": "CUarray *, const CUDA_ARRAY3D_DESCRIPTOR *",
    "cuArrayDestroy": "CUarray",
    "cuMipmappedArrayCreate": "CUmipmappedArray *, const CUDA_ARRAY3D_DESCRIPTOR *, unsigned int",
    "cuMipmappedArrayDestroy": "CUmipmappedArray",
    "cuIpcOpenMemHandle": "CUdeviceptr *, CUipcMemHandle, unsigned int",
    "cuIpcOpenMemHandle_v2": "CUdeviceptr *, CUipcMemHandle, unsigned int",
    "cuIpcCloseMemHandle": "CUdeviceptr",
    "cuImportExternalMemory": "CUexternalMemory *, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *",
    "cuExternalMemoryGetMappedBuffer":
        "CUdeviceptr *, CUexternalMemory, const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *",
    "cuExternalMemoryGetMappedMipmappedArray":
        "CUmipmappedArray *, CUexternalMemory, const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *",
    "cuDestroyExternalMemory": "CUexternalMemory",
    "cuMemCreate":
        "CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *, unsigned long long",
    "cuMemRelease": "CUmemGenericAllocationHandle",
    "cuMemAddressReserve": "CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long",
    "cuMemAddressFree": "CUdeviceptr, size_t",
    "cuMemMap":
        "CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long",
    "cuMemUnmap": "CUdeviceptr, size_t",
    "cuMemRetainAllocationHandle": "CUmemGenericAllocationHandle *, void *",
    "cuMemExportToShareableHandle":
        "void *, CUmemGenericAllocationHandle, int, unsigned long long",
    "cuMemImportFromShareableHandle": "CUmemGenericAllocationHandle *, void *, int",
    "cuMulticastCreate": "CUmemGenericAllocationHandle *, const struct team *",
    "cuMulticastAddDevice": "CUmemGenericAllocationHandle, CUdevice",
    "cuMulticastBindMem":
        "CUmemGenericAllocationHandle, size_t, CUmemGenericAllocationHandle, size_t, size_t, "
        "unsigned long long",
    "cuMulticastBindAddr":
        "CUmemGenericAllocationHandle, size_t, CUdeviceptr, size_t, unsigned long long",
    "cuMulticastUnbind": "CUmemGenericAllocationHandle, CUdevice, size_t, size_t",
    "cuStreamCreate": "CUstream *, unsigned int",
    "cuStreamBeginCapture_v2": "CUstream, int",
    "cuStreamEndCapture": "CUstream, void **",
    "cuGraphCreate": "void **, unsigned int",
    "cuGraphAddMemAllocNode": "void **, void *, const void *, size_t, struct alloc_node *",
    "cuGraphAddNode": "void **, void *, const void *, size_t, struct any_node *",
    "cuGraphAddNode_v2": "void **, void *, const void *, const void *, size_t, struct any_node *",
    "cuGraphInstantiateWithFlags": "void **, void *, unsigned long long",
    "cuGraphLaunch": "void *, CUstream",
}

# What some families need before: made once a process by prepare_NAME(), never given back,
# and expected in every report of a process that made it.
NEEDS = {
    "pool": Need("cuMemPoolCreate", "(&own_pool, &device_pool)", "mempool", 0),
    "external": Need("cuImportExternalMemory", "(&outside, &outside_memory)", "external", 0),
    "physical": Need("cuMemCreate", "(&physical, GRAIN, &device_memory, 0)", "vmm-handle", 2 << 20),
    "exported": Need("cuMemCreate", "(r = #(&exported, GRAIN, &exportable, 0)) ? r : "
                     "C(cuMemExportToShareableHandle)(&descriptor, exported, 1, 0)",
                     "vmm-handle", 2 << 20),
    "reserved": Need("cuMemAddressReserve", "(&reserved, GRAIN, 0, 0, 0)", "vmm-reservation", 0,
                     device=-1),
    "range": Need("cuMemAddressReserve", "(&range, GRAIN, 0, 0, 0)", "vmm-reservation", 0,
                  device=-1),
    "ordered": Need("cuMemAllocAsync", "(&ordered, GRAIN, NULL)", "stream-ordered", 2 << 20),
    "multicast": Need("cuMulticastCreate", "(r = #(&multicast, &team)) ? r : "
                      "C(cuMulticastAddDevice)(multicast, 0)", "vmm-handle", 0, device=-1),
}


def in_graph(name, size, make, node, back="(b->address)", drop="cuMemFree_v2", **more):
    """Memory of a graph: live from the launch on, made where its node was."""
    also = "cuGraphCreate cuStreamBeginCapture_v2 cuGraphInstantiateWithFlags cuGraphLaunch"
    return Family(name, "graph", size, make, "(r = %s) || (r = launch(b)) ? r : 0" % node,
                  drop, back, 1, prepared=True, also=also, waits_for="cuGraphLaunch", **more)


def captured(size, call):
    return "((r = capture(b)) ? r : (r = #(%s), end_capture(b, r)))" % (call % size)


def by_hand(size, call):
    return "((r = new_graph(b, %d)) ? r : (r = #(%s), take_address(b, r)))" % (size, call)


# An array of floats is 4 * width * height * depth * channels bytes; the pitch of a row below
# 512 bytes is 512. A bad call: (arguments, the driver's answer); where that is 0 the driver
# gave nothing, and address 0.
FAMILIES = [
    Family("linear_32", "device", 10001,
           "cuMemAlloc", "(&b->low, 10001)", "cuMemFree", "(b->low)", 1,
           bad=[("(&b->low, 0)", 1), ("(NULL, 10001)", 1)]),
    Family("linear", "device", 10002,
           "cuMemAlloc_v2", "(&b->address, 10002)", "cuMemFree_v2", "(b->address)", 1,
           bad=[("(&b->address, 0)", 1), ("(NULL, 10002)", 1),
                ("(&b->address, (size_t)1 << 60)", 2)]),
    Family("pitched_32", "device", 512 * 31,
           "cuMemAllocPitch", "(&b->low, &b->low_pitch, 100, 31, 4)", "cuMemFree", "(b->low)", 1,
           bad=[("(&b->low, &b->low_pitch, 100, 31, 3)", 1),
                ("(&b->low, NULL, 100, 31, 4)", 1)]),
    Family("pitched", "device", 512 * 37,
           "cuMemAllocPitch_v2", "(&b->address, &b->pitch, 100, 37, 4)",
           "cuMemFree_v2", "(b->address)", 1,
           bad=[("(&b->address, &b->pitch, 0, 37, 4)", 1),
                ("(NULL, &b->pitch, 100, 37, 4)", 1)]),
    Family("managed", "managed", 10003,
           "cuMemAllocManaged", "(&b->address, 10003, 1)", "cuMemFree_v2", "(b->address)", 1,
           bad=[("(&b->address, 10003, 9)", 1), ("(NULL, 10003, 1)", 1)]),
    Family("pinned_32", "pinned", 10004,
           "cuMemAllocHost", "(&b->pointer, 10004)", "cuMemFreeHost", "(b->pointer)", 1,
           bad=[("(NULL, 10004)", 1), ("(&b->pointer, 0)", 0)]),
    Family("pinned", "pinned", 10005,
           "cuMemAllocHost_v2", "(&b->pointer, 10005)", "cuMemFreeHost", "(b->pointer)", 1,
           bad=[("(NULL, 10005)", 1), ("(&b->pointer, 0)", 0),
                ("(&b->pointer, (size_t)1 << 50)", 2)]),
    Family("host_alloc", "pinned", 10006,
           "cuMemHostAlloc", "(&b->pointer, 10006, 1)", "cuMemFreeHost", "(b->pointer)", 1,
           bad=[("(NULL, 10006, 1)", 1), ("(&b->pointer, 10006, 99)", 1),
                ("(&b->pointer, 0, 0)", 0)]),
    Family("registered_old", "registered", 4096,
           "cuMemHostRegister", "(lent[0], 4096, 0)", "cuMemHostUnregister", "(lent[0])", 713,
           bad=[("(NULL, 4096, 0)", 1), ("(lent[0], 0, 0)", 1)]),
    Family("registered", "registered", 8192,
           "cuMemHostRegister_v2", "(lent[1], 8192, 0)", "cuMemHostUnregister", "(lent[1])", 713,
           bad=[("(NULL, 8192, 0)", 1), ("(lent[1], 0, 0)", 1)]),
    Family("async", "stream-ordered", 10007,
           "cuMemAllocAsync", "(&b->address, 10007, NULL)",
           "cuMemFreeAsync", "(b->address, NULL)", 1,
           bad=[("(NULL, 10007, NULL)", 1), ("(&b->address, 0, NULL)", 0),
                ("(&b->address, (size_t)1 << 60, NULL)", 2)]),
    Family("async_ptsz", "stream-ordered", 10008,
           "cuMemAllocAsync_ptsz", "(&b->address, 10008, NULL)",
           "cuMemFreeAsync_ptsz", "(b->address, NULL)", 1,
           bad=[("(NULL, 10008, NULL)", 1), ("(&b->address, 0, NULL)", 0)]),
    Family("from_pool", "stream-ordered", 10009, needs="pool",
           make="cuMemAllocFromPoolAsync", given="(&b->address, 10009, own_pool, NULL)",
           drop="cuMemFreeAsync", back="(b->address, NULL)", again=1,
           bad=[("(&b->address, 10009, NULL, NULL)", 1), ("(NULL, 10009, own_pool, NULL)", 1)]),
    Family("from_pool_ptsz", "stream-ordered", 10010, needs="pool",
           make="cuMemAllocFromPoolAsync_ptsz", given="(&b->address, 10010, own_pool, NULL)",
           drop="cuMemFreeAsync_ptsz", back="(b->address, NULL)", again=1,
           bad=[("(&b->address, 10010, NULL, NULL)", 1), ("(NULL, 10010, own_pool, NULL)", 1)]),
    # What one call made another may free: no error, and no block is left.
    Family("async_by_free", "stream-ordered", 10011,
           "cuMemAllocAsync", "(&b->address, 10011, NULL)", "cuMemFree_v2", "(b->address)", 1),
    Family("from_pool_by_free", "stream-ordered", 10012, needs="pool",
           make="cuMemAllocFromPoolAsync", given="(&b->address, 10012, own_pool, NULL)",
           drop="cuMemFree_v2", back="(b->address)", again=1),
    Family("linear_by_async", "device", 10013,
           "cuMemAlloc_v2", "(&b->address, 10013)", "cuMemFreeAsync", "(b->address, NULL)", 1),
    Family("pitched_by_async", "device", 512 * 41,
           "cuMemAllocPitch_v2", "(&b->address, &b->pitch, 100, 41, 4)",
           "cuMemFreeAsync_ptsz", "(b->address, NULL)", 1),
    Family("pool", "mempool", 0,
           "cuMemPoolCreate", "(&b->pool, &device_pool)", "cuMemPoolDestroy", "(b->pool)", 1,
           bad=[("(&b->pool, NULL)", 1), ("(NULL, &device_pool)", 1)]),
    Family("array_32", "array", 4 * 40 * 10,
           "cuArrayCreate", "(&b->array, &flat_32)", "cuArrayDestroy", "(b->array)", 400,
           bad=[("(&b->array, NULL)", 1), ("(NULL, &flat_32)", 1)]),
    Family("array", "array", 4 * 41 * 10,
           "cuArrayCreate_v2", "(&b->array, &flat)", "cuArrayDestroy", "(b->array)", 400,
           bad=[("(&b->array, NULL)", 1), ("(NULL, &flat)", 1), ("(&b->array, &no_array)", 1)]),
    Family("array3d_32", "array", 4 * 42 * 10 * 3,
           "cuArray3DCreate", "(&b->array, &deep_32)", "cuArrayDestroy", "(b->array)", 400,
           bad=[("(&b->array, NULL)", 1), ("(NULL, &deep_32)", 1)]),
    Family("array3d", "array", 4 * 43 * 10 * 3,
           "cuArray3DCreate_v2", "(&b->array, &deep)", "cuArrayDestroy", "(b->array)", 400,
           bad=[("(&b->array, NULL)", 1), ("(NULL, &deep)", 1)]),
    Family("mipmapped", "array", 4 * (32 * 16 + 16 * 8 + 8 * 4),
           "cuMipmappedArrayCreate", "(&b->mipmapped, &wide, 3)",
           "cuMipmappedArrayDestroy", "(b->mipmapped)", 400,
           bad=[("(&b->mipmapped, NULL, 3)", 1), ("(NULL, &wide, 3)", 1)]),
    Family("ipc_old", "ipc", 0,
           "cuIpcOpenMemHandle", "(&b->address, shared[0], 1)",
           "cuIpcCloseMemHandle", "(b->address)", 1,
           bad=[("(&b->address, shared[0], 0)", 1), ("(NULL, shared[0], 1)", 1)]),
    Family("ipc", "ipc", 0,
           "cuIpcOpenMemHandle_v2", "(&b->address, shared[1], 1)",
           "cuIpcCloseMemHandle", "(b->address)", 1,
           bad=[("(&b->address, shared[1], 0)", 1), ("(NULL, shared[1], 1)", 1)]),
    Family("external", "external", 0,
           "cuImportExternalMemory", "(&b->external, &outside_memory)",
           "cuDestroyExternalMemory", "(b->external)", 400,
           bad=[("(&b->external, NULL)", 1), ("(NULL, &outside_memory)", 1)]),
    Family("external_buffer", "external", 0, needs="external",
           make="cuExternalMemoryGetMappedBuffer", given="(&b->address, outside, &outside_buffer)",
           drop="cuMemFree_v2", back="(b->address)", again=1,
           bad=[("(&b->address, outside, NULL)", 1), ("(NULL, outside, &outside_buffer)", 1),
                ("(&b->address, NULL, &outside_buffer)", 400)]),
    Family("external_mipmapped", "external", 0, needs="external",
           make="cuExternalMemoryGetMappedMipmappedArray",
           given="(&b->mipmapped, outside, &outside_mipmapped)",
           drop="cuMipmappedArrayDestroy", back="(b->mipmapped)", again=400,
           bad=[("(&b->mipmapped, outside, NULL)", 1), ("(NULL, outside, &outside_mipmapped)", 1)]),
    # From here on: on as soon as their calls have rows.
    Family("vmm_handle", "vmm-handle", 4 << 20, prepared=True,
           make="cuMemCreate", given="(&b->handle, 2 * GRAIN, &device_memory, 0)",
           drop="cuMemRelease", back="(b->handle)", again=1,
           bad=[("(&b->handle, 0, &device_memory, 0)", 1), ("(NULL, GRAIN, &device_memory, 0)", 1)]),
    # Another reference on the same handle: the mapping in between comes and goes.
    Family("vmm_retained", "vmm-handle", 2 << 20, needs="range", prepared=True, passing=1,
           make="cuMemCreate",
           given="(r = #(&b->handle, GRAIN, &device_memory, 0)) || "
                 "(r = C(cuMemMap)(range, GRAIN, 0, b->handle, 0)) || "
                 "(r = C(cuMemRetainAllocationHandle)(&b->handle, (void *)range)) || "
                 "(r = C(cuMemUnmap)(range, GRAIN)) ? r : 0",
           drop="cuMemRelease", back="(r = #(b->handle), #(b->handle) | r)", again=1,
           twice="C(cuMemRelease)(b->handle)", also="cuMemRetainAllocationHandle", refused=0),
    Family("vmm_imported", "vmm-handle", 0, needs="exported", prepared=True, device=-1,
           make="cuMemImportFromShareableHandle",
           given="(&b->handle, (void *)(intptr_t)descriptor, 1)",
           drop="cuMemRelease", back="(b->handle)", again=1,
           bad=[("(NULL, (void *)(intptr_t)descriptor, 1)", 1)]),
    Family("vmm_reservation", "vmm-reservation", 0, prepared=True, device=-1, told=6 << 20,
           make="cuMemAddressReserve", given="(&b->address, 3 * GRAIN, 0, 0, 0)",
           drop="cuMemAddressFree", back="(b->address, 3 * GRAIN)", again=1,
           bad=[("(&b->address, 0, 0, 0, 0)", 1), ("(NULL, GRAIN, 0, 0, 0)", 1)]),
    # A second unmap of a reserved range is a success that ends nothing, and no error.
    Family("vmm_mapping", "vmm-mapping", 0, needs="physical reserved", prepared=True,
           make="cuMemMap", given="(reserved, GRAIN, 0, physical, 0)",
           drop="cuMemUnmap", back="(reserved, GRAIN)", again=0, forgiven=True,
           bad=[("(reserved, 0, 0, physical, 0)", 1), ("(reserved, GRAIN, 0, 0, 0)", 1)]),
    Family("multicast", "vmm-handle", 0, prepared=True, device=-1,
           make="cuMulticastCreate", given="(&b->handle, &team)",
           drop="cuMemRelease", back="(b->handle)", again=1,
           bad=[("(&b->handle, NULL)", 1), ("(NULL, &team)", 1)]),
    Family("multicast_bound", "vmm-mapping", 0, needs="multicast physical", prepared=True,
           make="cuMulticastBindMem", given="(multicast, 0, physical, 0, GRAIN, 0)",
           drop="cuMulticastUnbind", back="(multicast, 0, 0, GRAIN)", again=1, told=2 << 20,
           bad=[("(multicast, 0, 0, 0, GRAIN, 0)", 1), ("(multicast, 0, physical, 0, 0, 0)", 1)]),
    Family("multicast_bound_address", "vmm-mapping", 0, needs="multicast ordered", prepared=True,
           device=-1, todo={"twice": "a binding whose device is not known is invalid-free"},
           make="cuMulticastBindAddr", given="(multicast, 2 * GRAIN, ordered, GRAIN, 0)",
           drop="cuMulticastUnbind", back="(multicast, 0, 2 * GRAIN, GRAIN)", again=1,
           told=2 << 20, bad=[("(multicast, 2 * GRAIN, 0, GRAIN, 0)", 1)]),
    in_graph("graph_captured", 50001, "cuMemAllocAsync",
             captured(50001, "&b->address, %d, stream")),
    in_graph("graph_captured_from_pool", 50002, "cuMemAllocFromPoolAsync",
             captured(50002, "&b->address, %d, own_pool, stream"), needs="pool"),
    in_graph("graph_node", 50003, "cuGraphAddMemAllocNode",
             by_hand(50003, "&b->node, b->graph, NULL, 0, &b->any.alloc"),
             bad=[("(new_graph(b, 0), #(&b->node, b->graph, NULL, 0, &b->any.alloc))", 1)]),
    in_graph("graph_any_node", 50004, "cuGraphAddNode",
             by_hand(50004, "&b->node, b->graph, NULL, 0, &b->any")),
    in_graph("graph_any_node_v2", 50005, "cuGraphAddNode_v2",
             by_hand(50005, "&b->node, b->graph, NULL, NULL, 0, &b->any")),
    in_graph("graph_by_async", 50006, "cuGraphAddMemAllocNode",
             by_hand(50006, "&b->node, b->graph, NULL, 0, &b->any.alloc"),
             back="(b->address, NULL)", drop="cuMemFreeAsync"),
]

# Rows that no family makes or ends a block with, and why.
EXCEPTIONS = {
    "cuInit": "first use, in every cell",
    "cuDevicePrimaryCtxRetain": "in every cell; makes no block",
    "cuGetProcAddress": "a route",
    "cuGetProcAddress_v2": "a route",
    "cuCtxDestroy": "ends what is in a context: programs, case 'context destroyed'",
    "cuCtxDestroy_v2": "programs, cases 'context destroyed' and 'free after context'",
    "cuDevicePrimaryCtxRelease": "the base name of the next: programs, 'context released'",
    "cuDevicePrimaryCtxRelease_v2": "programs, cases 'context released' and '... at exit'",
    "cuDevicePrimaryCtxReset": "the base name of the next: programs, 'context reset'",
    "cuDevicePrimaryCtxReset_v2": "programs, case 'context reset'",
}

# Files of rows that are about something else than blocks of memory, and where they are tested.
OTHER_TABLES = {}

# Exceptions for rows that are yet to come.
EXCEPTIONS_TO_COME = {
    "cuMulticastBindMem_v2": "no driver of CUDA 13.0 has it",
    "cuMulticastBindAddr_v2": "no driver of CUDA 13.0 has it",
    "cuGetExportTable": "gives no memory: routes, coverage",
    "cuGraphAddMemFreeNode": "frees at a launch: programs, graph cases",
    **dict.fromkeys((
        "cuGraphExecUpdate", "cuGraphExecUpdate_v2",
        "cuGraphInstantiate", "cuGraphInstantiate_v2", "cuGraphInstantiateWithParams",
        "cuGraphInstantiateWithParams_ptsz", "cuGraphLaunch_ptsz", "cuGraphExecDestroy",
        "cuGraphDestroy", "cuGraphClone", "cuStreamBeginCapture", "cuStreamBeginCapture_ptsz",
        "cuStreamBeginCapture_v2_ptsz"), "gives and takes no memory: programs, graph cases"),
    **dict.fromkeys((
        "cuCtxCreate", "cuCtxCreate_v2", "cuCtxCreate_v3", "cuCtxCreate_v4", "cuCtxAttach",
        "cuCtxDetach", "cuGreenCtxCreate", "cuGreenCtxDestroy", "cuCtxFromGreenCtx"),
        "contexts: what is in them ends with them; programs, context cases"),
    **dict.fromkeys((
        "cuCtxSetLimit", "cuModuleLoad", "cuModuleLoadData", "cuModuleLoadDataEx",
        "cuModuleLoadFatBinary", "cuLibraryLoadData", "cuLibraryLoadFromFile", "cuFuncLoad"),
        "the driver itself holds more after them: programs, held"),
}
