# SPDX-License-Identifier: MIT
"""The OpenCL side of the matrix: see cuda_families.py. The platform is PoCL; what it cannot
do itself (refuse a release, give out core functions) giver.c does in front of it."""

from rows import ANY, Family, Need

# Every call that a cell makes; the types are CL/cl.h's.
CALLS = [
    "clGetPlatformIDs", "clGetDeviceIDs", "clCreateContext", "clCreateContextFromType",
    "clCreateCommandQueueWithProperties", "clFinish", "clCreateBuffer",
    "clCreateBufferWithProperties", "clCreateSubBuffer", "clCreateImage",
    "clCreateImageWithProperties", "clCreateImage2D", "clCreateImage3D", "clCreatePipe",
    "clRetainMemObject", "clReleaseMemObject", "clSVMAlloc", "clSVMFree", "clEnqueueSVMFree",
]

NEEDS = {
    "parent": Need("clCreateBuffer", "(parent = #(context, 0, 65536, NULL, &r), r)",
                   "cl-buffer", 65536),
}

BAD_SIZE, BAD_CONTEXT, BAD_VALUE, NOT_SUPPORTED = -61, -34, -30, -59
BAD_DESCRIPTOR, BAD_OBJECT = -65, -38


def made(arguments):
    return "(b->object = #(%s, &r), r)" % arguments


def shared(arguments):
    return "(b->pointer = #(%s)) ? 0 : -1" % arguments


def memory(name, kind, size, make, arguments, bad, **more):
    """An object that ends by its last release. A second one may be a driver's end."""
    return Family(name, kind, size, make, made(arguments), "clReleaseMemObject", "(b->object)",
                  None, bad=[(made(given), answer) for given, answer in bad], again_told=ANY,
                  **more)


FAMILIES = [
    memory("buffer", "cl-buffer", 10001, "clCreateBuffer", "context, 0, 10001, NULL",
           [("context, 0, 0, NULL", BAD_SIZE), ("NULL, 0, 10001, NULL", BAD_CONTEXT)]),
    memory("buffer_properties", "cl-buffer", 10002, "clCreateBufferWithProperties",
           "context, no_properties, 0, 10002, NULL",
           [("context, no_properties, 0, 0, NULL", BAD_SIZE)]),
    memory("sub_buffer", "cl-sub-buffer", 4096, "clCreateSubBuffer",
           "parent, 0, CL_BUFFER_CREATE_TYPE_REGION, &region",
           [("NULL, 0, CL_BUFFER_CREATE_TYPE_REGION, &region", BAD_OBJECT),
            ("parent, 0, 99, &region", BAD_VALUE)], needs="parent"),
    memory("image", "cl-image", 64 * 32 * 4, "clCreateImage", "context, 0, &format, &flat, NULL",
           [("context, 0, &format, NULL, NULL", BAD_DESCRIPTOR)]),
    memory("image_properties", "cl-image", 64 * 31 * 4, "clCreateImageWithProperties",
           "context, no_properties, 0, &format, &flat_too, NULL",
           [("context, no_properties, 0, &format, NULL, NULL", BAD_DESCRIPTOR)]),
    memory("image2d", "cl-image", 64 * 30 * 4, "clCreateImage2D",
           "context, 0, &format, 64, 30, 0, NULL",
           [("NULL, 0, &format, 64, 30, 0, NULL", BAD_CONTEXT)]),
    memory("image3d", "cl-image", 64 * 29 * 2 * 4, "clCreateImage3D",
           "context, 0, &format, 64, 29, 2, 0, 0, NULL",
           [("NULL, 0, &format, 64, 29, 2, 0, 0, NULL", BAD_CONTEXT)]),
    # PoCL's devices have no pipes: a call that always fails.
    memory("pipe", "cl-pipe", 0, "clCreatePipe", "context, 0, 16, 64, NULL",
           [("context, 0, 0, 64, NULL", NOT_SUPPORTED)], blocks=0, made=NOT_SUPPORTED,
           dropped=BAD_OBJECT),
    Family("buffer_retained", "cl-buffer", 10003, "clCreateBuffer",
           "(b->object = #(context, 0, 10003, NULL, &r), C(clRetainMemObject)(b->object))",
           "clReleaseMemObject", "(r = #(b->object)) ? r : #(b->object)", None, again_told=ANY,
           fails=BAD_OBJECT, refused=0, also="clRetainMemObject",
           twice="C(clReleaseMemObject)(b->object)"),
    Family("svm", "cl-svm", 10004, "clSVMAlloc", shared("context, 0, 10004, 0"),
           "clSVMFree", "(#(context, b->pointer), 0)", None, fails=-1, refused=None,
           bad=[(shared("context, 0, 0, 0"), -1), (shared("NULL, 0, 10004, 0"), -1)]),
    Family("svm_queue", "cl-svm", 10005, "clSVMAlloc", shared("context, 0, 10005, 0"),
           "clEnqueueSVMFree", "in_queue(b, NULL)", None, fails=-1, refused=0,
           freed_in=("in_queue", "drop_svm_queue", "twice", "..."),
           twice="(C(clSVMFree)(context, b->pointer), 0)", again_by="clSVMFree"),
    Family("svm_callback", "cl-svm", 10006, "clSVMAlloc", shared("context, 0, 10006, 0"),
           "clEnqueueSVMFree", "in_queue(b, own_free)", None, fails=-1, refused=0,
           ended_by="clSVMFree", freed_in=("own_free", "..."), twice="(C(clSVMFree)(context, b->pointer), 0)"),
]

EXCEPTIONS = {
    "clCreateContext": "first use, in every cell",
    "clCreateContextFromType": "first use, in every cell of the routes 'default' and 'plugin'",
    "clGetExtensionFunctionAddress": "a route",
    "clGetMemObjectInfo": "only the pool has an answer of its own: programs, cl-pool",
    "clSetMemObjectDestructorCallback": "ends no block: programs, cl-released and cl-pool",
    "clGetExtensionFunctionAddressForPlatform": "a route",
    **dict.fromkeys((
        "clCreateFromGLBuffer", "clCreateFromGLTexture", "clCreateFromGLTexture2D",
        "clCreateFromGLTexture3D", "clCreateFromGLRenderbuffer", "clCreateFromEGLImageKHR",
        "clCreateBufferWithPropertiesINTEL", "clCreateBufferNV", "clImportMemoryARM",
        "clCreateFromVA_APIMediaSurfaceINTEL"),
        "PoCL has none of them: opencl-usm, 'other creators of objects'"),
    **dict.fromkeys((
        "clHostMemAllocINTEL", "clDeviceMemAllocINTEL", "clSharedMemAllocINTEL",
        "clMemFreeINTEL", "clMemBlockingFreeINTEL"),
        "PoCL 3.1 has none of them: opencl-usm, leaked, freed, freed twice, refused"),
    **dict.fromkeys((
        "clSVMAllocWithPropertiesKHR", "clSVMFreeWithPropertiesKHR", "clSVMAllocARM",
        "clSVMFreeARM", "clEnqueueSVMFreeARM"),
        "PoCL has none of them: opencl-usm, 'SVM of other names'"),
}

# Files of rows that are about something else than blocks of memory, and where they are tested.
OTHER_TABLES = {"opencl_objects.def": "objects that are no memory: programs, cl-objects; maps and user "
                "events: programs, cl-mapped"}
