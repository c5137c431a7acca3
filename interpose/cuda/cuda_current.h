/* SPDX-License-Identifier: MIT
 *
 * The calling thread's CUDA context, for each allocation: therefore inline. Used by the wrappers
 * and the pool.
 */
#pragma once

#include "interpose/base/hot.h"
#include "interpose/recorder/recorder.h"
#include "interpose/dispatch/resolve.h"
#include "interpose/cuda/cuda_types.h"

/* The driver's function of the USED row SYMBOL, or NULL. */
#define CUDA_USED(symbol) ((used_##symbol *)resolve_used(USED_##symbol))
/* The driver's function of the row SYMBOL, or NULL. */
#define CUDA_REAL(symbol) DRIVER(symbol, resolve_driver(&hooks[HOOK_##symbol]).real)
#define USED(symbol, returns, parameters) typedef returns used_##symbol parameters;
#define ROWS_OF "interpose/cuda/cuda.def"
#include "interpose/dispatch/hooks.def"

/* State about CUDA contexts: how often each was attached, and which ones are green. A green context
 * is a part of its device's primary context and owns no memory. */
struct contexts {
	struct lock lock;
	struct attached *attached; /* see cuda_context.c */
	struct green *green;
};

enum { LOCATION_DEVICE = 1 }; /* CU_MEM_LOCATION_TYPE_DEVICE */

/* Incremented when a context ends: the driver may give its handle to a new context on another
 * device. */
extern _Atomic uint32_t cuda_context_epoch __attribute__((visibility("hidden")));
/* True if the current context or the driver may have ended: a context ended, or the process is
 * exiting. */
extern _Atomic bool cuda_context_doubtful __attribute__((visibility("hidden")));

/* Stores CONTEXT, its device and its owner in thread_self. Called if CONTEXT is not the context
 * stored there, or if any context ended since it was stored. EPOCH: the present
 * cuda_context_epoch. */
COLD void cuda_meet_context(CUcontext context, uint32_t epoch);

/* Returns true if a context is current. Then thread_self holds the owner of its memory and its
 * device. */
static HOT bool cuda_look_at_context(void)
{
	used_cuCtxGetCurrent *get = CUDA_USED(cuCtxGetCurrent);
	uint32_t epoch = atomic_load_explicit(&cuda_context_epoch, memory_order_acquire);
	CUcontext context = NULL;

	if (__builtin_expect(!get, 0) || get(&context) != CUDA_SUCCESS || !context)
		return false;
	if (__builtin_expect(thread_self.context != (uint64_t)(uintptr_t)context ||
				     thread_self.context_epoch != epoch,
			     0))
		cuda_meet_context(context, epoch);
	return true;
}

/* Stores the calling thread's device and the context that owns its memory; -1 and 0 if no context
 * is current. Permitted during stream capture. */
void cuda_current_context(uint64_t *ret_context, int *ret_device);

/* Makes CONTEXT current for the calling thread. Returns false if the driver refuses. Otherwise
 * cuda_pop_context() must follow. */
bool cuda_push_context(CUcontext context);
void cuda_pop_context(void);

/* Returns the primary context of DEVICE that was seen last, or NULL. */
CUcontext cuda_primary_of(CUdevice device);
/* Stores CONTEXT, which a retain returned. *RET_NEW: true if this retain created it. */
void cuda_primary_set(CUdevice device, CUcontext context, bool *ret_new);
/* Marks the primary context of DEVICE as ended. Returns false if DEVICE is out of range. */
bool cuda_primary_gone(CUdevice device);

/* Returns true if CONTEXT is a green context. Does not call the driver. */
bool cuda_is_green(CUcontext context);
void cuda_green_add(CUgreenCtx handle, CUdevice device);
/* Stores CONTEXT as the CUcontext of the green context HANDLE. */
void cuda_green_name(CUgreenCtx handle, CUcontext context);
/* Removes the green context HANDLE from the list. Returns its device, or -1 if HANDLE is not
 * listed. *RET_CONTEXT: its CUcontext, or NULL. */
CUdevice cuda_green_take(CUgreenCtx handle, CUcontext *ret_context);

/* Returns the memory size of DEVICE in bytes, 0 if unknown. */
uint64_t cuda_device_total(int device);
/* Records the UUID, name and PCI bus id of DEVICE, once per process. */
void cuda_meet_device(int device);

/* Returns true if STREAM of the call HOOK is captured, so that the call adds a graph node. The
 * driver crashes on an invalid stream here: call this after the driver's call has succeeded. */
bool cuda_is_captured(const struct hook *hook, CUstream stream);

/* Returns true if the calling thread is inside libc's exit(). */
bool cuda_inside_exit(void);

/* Returns true if HOOK is a _ptsz call: its default stream is the thread's own. */
bool cuda_is_per_thread(const struct hook *hook);
