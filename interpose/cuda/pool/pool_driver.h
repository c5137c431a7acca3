/* SPDX-License-Identifier: MIT
 *
 * The driver calls that several files of the pool make. Each function may be called on any thread,
 * with the recorder entered or not.
 */
#ifndef GPULEAK_POOL_DRIVER_H
#define GPULEAK_POOL_DRIVER_H

#include "interpose/cuda/cuda_current.h"
#include "interpose/cuda/cuda_rows.h"
#include "interpose/cuda/pool/pool_types.h"

/* The driver's function of the row SYMBOL, or NULL. */
#define POOL_REAL(symbol) DRIVER(symbol, resolve_driver(&hooks[HOOK_##symbol]).real)
/* Returns the memory size of DEVICE in bytes, 0 if unknown. */
uint64_t pool_device_bytes(int device);

/* Between these two, the thread may make calls that would otherwise invalidate a capture of another
 * thread. cuCtxRecordEvent and cuCtxSynchronize still invalidate it. pool_relax() returns the mode
 * for pool_unrelax(). */
int pool_relax(void);
void pool_unrelax(int mode);
/* Makes CONTEXT current until pool_pop_context(), which takes *RET_PUSHED. Returns false if the
 * driver refused. */
bool pool_push_context(struct pool_context *context, bool *ret_pushed);
void pool_pop_context(bool pushed);

/* Waits for STREAM, even while another thread captures a stream. */
void pool_wait_for_stream(CUstream stream);

#endif
