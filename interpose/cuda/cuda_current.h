/* SPDX-License-Identifier: MIT
 *
 * The calling thread's CUDA context, as an allocation asks for it: inline, since it is asked at
 * each one. For cuda_context.c, which owns the answer, and the pool.
 */
#ifndef GPULEAK_CUDA_CURRENT_H
#define GPULEAK_CUDA_CURRENT_H

#include "interpose/base/hot.h"
#include "interpose/recorder/recorder.h"
#include "interpose/dispatch/resolve.h"
#include "interpose/cuda/cuda_types.h"

enum { LOCATION_DEVICE = 1 }; /* CUmemLocationType */

/* Raised when a context goes: a later one may get the same handle on another device. */
extern _Atomic uint32_t cuda_context_epoch __attribute__((visibility("hidden")));

/* CONTEXT is not the one that this thread met last, or that was before EPOCH. */
COLD void cuda_meet_context(CUcontext context, uint32_t epoch);

/* Whether one is current: then thread_self says who owns its memory, and on which device. */
static HOT bool cuda_look_at_context(void)
{
	CUresult (*get)(CUcontext *) =
		(CUresult(*)(CUcontext *))resolve_used(USED_cuCtxGetCurrent);
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

/* The calling thread's context, by the handle under which its memory ends, and its device; 0
 * and -1 where there is none. Capture allows the questions. */
void cuda_current_context(uint64_t *ret_context, int *ret_device);

/* The primary context of DEVICE that was seen last, or NULL. */
CUcontext cuda_primary_of(CUdevice device);
/* A retain returned CONTEXT; whether that made it. */
void cuda_primary_set(CUdevice device, CUcontext context, bool *ret_new);
/* The context of DEVICE ended. Returns false if there is no such device. */
bool cuda_primary_gone(CUdevice device);

/* CONTEXT is a part of its device's primary one. Asks nobody. */
bool cuda_is_green(CUcontext context);
void cuda_green_add(CUgreenCtx handle, CUdevice device);
/* As a CUcontext, HANDLE is CONTEXT. */
void cuda_green_name(CUgreenCtx handle, CUcontext context);
/* Removes HANDLE. Returns its device, -1 if nothing is known of it. */
CUdevice cuda_green_take(CUgreenCtx handle, CUcontext *ret_context);

/* DEVICE is in use: notes who it is, once a process. */
void cuda_meet_device(int device);

/* STREAM, on which HOOK was called, is being captured: what happens belongs to a graph. */
bool cuda_is_captured(const struct hook *hook, CUstream stream);

/* HOOK is one of the calls whose default stream is the thread's own. */
bool cuda_is_per_thread(const struct hook *hook);

#endif
