/* SPDX-License-Identifier: MIT
 *
 * The driver calls that several files of the pool make. Must not use blocks or fences.
 */
#include "interpose/cuda/pool/pool_internal.h"

#define CAPTURE_MODE_RELAXED 2

int pool_relax(void)
{
	used_cuThreadExchangeStreamCaptureMode *exchange =
		CUDA_USED(cuThreadExchangeStreamCaptureMode);
	int mode = CAPTURE_MODE_RELAXED;

	if (!exchange || exchange(&mode) != CUDA_SUCCESS)
		return CAPTURE_MODE_RELAXED;
	return mode;
}

void pool_unrelax(int mode)
{
	if (mode != CAPTURE_MODE_RELAXED)
		CUDA_USED(cuThreadExchangeStreamCaptureMode)(&mode);
}

bool pool_push_context(struct pool_context *context, bool *ret_pushed)
{
	CUcontext current = NULL, owner = (CUcontext)(uintptr_t)atomic_load(&context->handle);

	*ret_pushed = false;
	if (CUDA_USED(cuCtxGetCurrent)(&current) != CUDA_SUCCESS)
		return false;
	if (current == owner)
		return true;
	*ret_pushed = cuda_push_context(owner);
	return *ret_pushed;
}

void pool_pop_context(bool pushed)
{
	if (pushed)
		cuda_pop_context();
}

void pool_wait_for_stream(CUstream stream)
{
	used_cuStreamSynchronize *wait = CUDA_USED(cuStreamSynchronize);
	int mode = pool_relax();

	if (wait)
		wait(stream);
	pool_unrelax(mode);
}
