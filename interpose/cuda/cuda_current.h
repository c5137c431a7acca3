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

#endif
