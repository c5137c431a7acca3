/* SPDX-License-Identifier: MIT
 *
 * The wrappers that follow streams for the pool: the begin and end of captures, and calls that wait
 * for all work of a context. Owns no list: captures.c has the captures, cuda_graph.c their graphs.
 */
#include "interpose/cuda/captures.h"
#include "interpose/cuda/wrappers/cuda_calls.h"
#include "interpose/cuda/wrappers/cuda_graph.h"
#include "interpose/cuda/pool/pool.h"
#include "interpose/dispatch/resolve.h"
#include "interpose/base/submit_epoch.h"

enum { STREAM_CAPTURE_UNMATCHED = 905, STREAM_CAPTURE_WRONG_THREAD = 908 };

/* ---- captures ---- */

/* OWN: the capture makes a new graph. Otherwise the capture extends an existing graph, whose nodes
 * stay listed. */
static CUresult begun_capture(struct call *call, CUstream stream, bool own, CUresult r)
{
	uint64_t context = 0;
	int device;

	if (r == CUDA_SUCCESS)
		cuda_current_context(&context, &device);
	captures_begun(stream, cuda_is_per_thread(call->hook), context, r == CUDA_SUCCESS);
	if (r == CUDA_SUCCESS && own)
		cuda_graph_begun(call, stream);
	else if (r == CUDA_SUCCESS)
		captures_set_into_graph(stream, cuda_is_per_thread(call->hook));
	return r;
}

static CUresult begin(struct call *call, void *real, CUstream stream)
{
	captures_beginning();
	return begun_capture(call, stream, true, DRIVER(cuStreamBeginCapture, real)(stream));
}

static CUresult begin_v2(struct call *call, void *real, CUstream stream, CUstreamCaptureMode mode)
{
	captures_beginning();
	return begun_capture(call, stream, true,
			     DRIVER(cuStreamBeginCapture_v2, real)(stream, mode));
}

static CUresult begin_into(struct call *call, void *real, CUstream stream, CUgraph graph,
			   const CUgraphNode *dependencies, const CUgraphEdgeData *edges,
			   size_t count, CUstreamCaptureMode mode)
{
	captures_beginning();
	return begun_capture(call, stream, false,
			     DRIVER(cuStreamBeginCaptureToGraph, real)(
				     stream, graph, dependencies, edges, count, mode));
}

static CUresult begin_again(struct call *call, void *real, CUstream stream,
			    CUstreamCaptureMode mode, CUgraph graph,
			    CUgraphRecaptureCallback callback, void *user_data)
{
	captures_beginning();
	return begun_capture(call, stream, false,
			     DRIVER(cuStreamBeginRecaptureToGraph, real)(
				     stream, mode, graph, callback, user_data));
}

/* Returns true if this call ended the capture. A call that ends an invalidated capture fails, but
 * does end it. After other failures the capture may continue, so the stream is queried, which is
 * permitted during capture. */
static bool capture_is_over(const struct hook *hook, CUstream stream, CUresult r)
{
	if (r == CUDA_SUCCESS)
		return true;
	return r != STREAM_CAPTURE_WRONG_THREAD && r != STREAM_CAPTURE_UNMATCHED &&
	       !cuda_is_captured(hook, stream);
}

static CUresult end(struct call *call, void *real, CUstream stream, CUgraph *graph)
{
	uint64_t capture = captures_of(stream, cuda_is_per_thread(call->hook));
	bool makes_graph = captures_makes_graph(capture);
	CUresult r = DRIVER(cuStreamEndCapture, real)(stream, graph);

	if (capture && capture_is_over(call->hook, stream, r))
		captures_ended(capture);
	if (r == CUDA_SUCCESS && makes_graph && graph)
		cuda_record_object_once(call, (uint64_t)(uintptr_t)*graph);
	return r;
}

static CUresult destroy_stream(struct call *call, void *real, CUstream stream)
{
	uint64_t capture = captures_of(stream, false);
	struct freeing freeing;
	CUresult r;

	cuda_object_ending(call, (uint64_t)(uintptr_t)stream, 1, &freeing);
	r = DRIVER(cuStreamDestroy, real)(stream);
	cuda_object_ended(call, 0, &freeing, r);
	if (r == CUDA_SUCCESS)
		captures_ended(capture);
	return r;
}

/* ---- waits ---- */

/* Returns the context that the call waited for. Returns 0 for a green context: the rest of its
 * primary context may still have work. */
static uint64_t waited_for(CUcontext context)
{
	used_cuCtxGetCurrent *get = CUDA_USED(cuCtxGetCurrent);

	if (!context && (!get || get(&context) != CUDA_SUCCESS))
		return 0;
	return cuda_is_green(context) ? 0 : (uint64_t)(uintptr_t)context;
}

static CUresult waited(CUcontext context, uint64_t epoch, CUresult r)
{
	uint64_t idle;

	if (r == CUDA_SUCCESS && atomic_load_explicit(&pool_on, memory_order_relaxed) &&
	    (idle = waited_for(context)))
		pool_context_idle(idle, epoch);
	return r;
}

static CUresult synchronize(NO_CALL, void *real)
{
	uint64_t epoch = submits_epoch();

	return waited(NULL, epoch, DRIVER(cuCtxSynchronize, real)());
}

static CUresult synchronize_v2(NO_CALL, void *real, CUcontext context)
{
	uint64_t epoch = submits_epoch();

	return waited(context, epoch, DRIVER(cuCtxSynchronize_v2, real)(context));
}

#define HAND CUDA_HAND
#define ROWS_OF "interpose/cuda/cuda_streams.def"
#include "interpose/dispatch/hooks.def"
