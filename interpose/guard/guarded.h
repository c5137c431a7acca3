/* SPDX-License-Identifier: MIT
 *
 * What guarded wrappers of CUDA call in place of the driver (guard_rows.h): each function has the
 * call, the driver's function REAL and the arguments of its row.
 */
#ifndef GPULEAK_GUARD_GUARDED_H
#define GPULEAK_GUARD_GUARDED_H

#include "interpose/block/call.h"
#include "interpose/cuda/cuda_types.h"

#define GUARDED(name, ...) CUresult name(struct call *call, void *real, __VA_ARGS__)

GUARDED(guard_alloc, CUdeviceptr *address, size_t bytes);
GUARDED(guard_free, CUdeviceptr address);
GUARDED(guard_free_async, CUdeviceptr address, CUstream stream);

CUresult guard_synchronize(struct call *call, void *real);
GUARDED(guard_synchronize_v2, CUcontext context);
GUARDED(guard_synchronize_stream, CUstream stream);

/* CALL returned R, not 0. */
void guard_failed(struct call *call, CUresult r);

#endif
