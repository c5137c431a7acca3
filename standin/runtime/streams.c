/* SPDX-License-Identifier: MIT
 *
 * Streams, events, host functions and capture.
 */
#include <stdlib.h>

#include "standin/runtime/runtime.h"

CUDART(cudaStreamCreate)(CUstream *ret)
{
	cudaError_t r = enter();

	return done(r ? r : driver.cuStreamCreate(ret, 0));
}

CUDART(cudaStreamCreateWithFlags)(CUstream *ret, unsigned int flags)
{
	cudaError_t r = enter();

	return done(r ? r : driver.cuStreamCreate(ret, flags));
}

CUDART(cudaStreamCreateWithPriority)(CUstream *ret, unsigned int flags, int priority)
{
	cudaError_t r = enter();

	return done(r ? r : driver.cuStreamCreateWithPriority(ret, flags, priority));
}

CUDART(cudaStreamDestroy)(CUstream stream)
{
	cudaError_t r = enter();

	return done(r ? r : driver.cuStreamDestroy(stream));
}

CUDART_STREAM(cudaStreamSynchronize, (CUstream stream), (stream))
{
	cudaError_t r = enter();

	return done(r ? r : driver.cuStreamSynchronize(stream));
}

CUDART_STREAM(cudaStreamQuery, (CUstream stream), (stream))
{
	cudaError_t r = enter();

	return done(r ? r : driver.cuStreamQuery(stream));
}

CUDART_STREAM(cudaStreamWaitEvent, (CUstream stream, CUevent event, unsigned int flags),
	      (stream, event, flags))
{
	cudaError_t r = enter();

	return done(r ? r : driver.cuStreamWaitEvent(stream, event, flags));
}

CUDART_STREAM(cudaStreamGetFlags, (CUstream stream, unsigned int *flags), (stream, flags))
{
	cudaError_t r = enter();

	return done(r ? r : driver.cuStreamGetFlags(stream, flags));
}

CUDART_STREAM(cudaStreamGetPriority, (CUstream stream, int *priority), (stream, priority))
{
	cudaError_t r = enter();

	return done(r ? r : driver.cuStreamGetPriority(stream, priority));
}

/* ---- host functions ---- */

CUDART_STREAM(cudaLaunchHostFunc, (CUstream stream, void (*function)(void *), void *data),
	      (stream, function, data))
{
	cudaError_t r = enter();

	return done(r ? r : driver.cuLaunchHostFunc(stream, function, data));
}

struct callback {
	void (*function)(CUstream stream, cudaError_t status, void *data);
	CUstream stream;
	void *data;
};

static void call_back(void *data)
{
	struct callback *c = data;

	c->function(c->stream, CUDA_SUCCESS, c->data);
	free(c);
}

CUDART_STREAM(cudaStreamAddCallback,
	      (CUstream stream, void (*function)(CUstream, cudaError_t, void *), void *data,
	       unsigned int flags),
	      (stream, function, data, flags))
{
	cudaError_t r = function && !flags ? enter() : cudaErrorInvalidValue;
	struct callback *c = r ? NULL : malloc(sizeof(*c));

	if (r || !c)
		return done(r ? r : CUDA_ERROR_OUT_OF_MEMORY);
	*c = (struct callback){ function, stream, data };
	r = driver.cuLaunchHostFunc(stream, call_back, c);
	if (r)
		free(c);
	return done(r);
}

/* ---- capture ---- */

CUDART_STREAM(cudaStreamBeginCapture, (CUstream stream, int mode), (stream, mode))
{
	cudaError_t r = enter();

	return done(r ? r : driver.cuStreamBeginCapture(stream, mode));
}

CUDART_STREAM(cudaStreamEndCapture, (CUstream stream, CUgraph *graph), (stream, graph))
{
	cudaError_t r = enter();

	return done(r ? r : driver.cuStreamEndCapture(stream, graph));
}

CUDART_STREAM(cudaStreamIsCapturing, (CUstream stream, int *status), (stream, status))
{
	cudaError_t r = enter();

	return done(r ? r : driver.cuStreamIsCapturing(stream, status));
}

CUDART(cudaThreadExchangeStreamCaptureMode)(int *mode)
{
	cudaError_t r = connect_driver();

	return done(r ? r : driver.cuThreadExchangeStreamCaptureMode(mode));
}

/* ---- events ---- */

CUDART(cudaEventCreate)(CUevent *ret)
{
	cudaError_t r = enter();

	return done(r ? r : driver.cuEventCreate(ret, 0));
}

CUDART(cudaEventCreateWithFlags)(CUevent *ret, unsigned int flags)
{
	cudaError_t r = enter();

	return done(r ? r : driver.cuEventCreate(ret, flags));
}

CUDART(cudaEventDestroy)(CUevent event)
{
	cudaError_t r = enter();

	return done(r ? r : driver.cuEventDestroy(event));
}

CUDART_STREAM(cudaEventRecord, (CUevent event, CUstream stream), (event, stream))
{
	cudaError_t r = enter();

	return done(r ? r : driver.cuEventRecord(event, stream));
}

CUDART_STREAM(cudaEventRecordWithFlags, (CUevent event, CUstream stream, unsigned int flags),
	      (event, stream, flags))
{
	cudaError_t r = flags > 1 ? cudaErrorInvalidValue : enter();

	return done(r ? r : driver.cuEventRecord(event, stream));
}

CUDART(cudaEventQuery)(CUevent event)
{
	cudaError_t r = enter();

	return done(r ? r : driver.cuEventQuery(event));
}

CUDART(cudaEventSynchronize)(CUevent event)
{
	cudaError_t r = enter();

	return done(r ? r : driver.cuEventSynchronize(event));
}

static cudaError_t elapsed(float *ms, CUevent start, CUevent end)
{
	cudaError_t r = enter();

	return done(r ? r : driver.cuEventElapsedTime(ms, start, end));
}

CUDART(cudaEventElapsedTime)(float *ms, CUevent start, CUevent end)
{
	return elapsed(ms, start, end);
}

CUDART(cudaEventElapsedTime_v2)(float *ms, CUevent start, CUevent end)
{
	return elapsed(ms, start, end);
}
