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
static CUresult begun_capture(struct call *call, struct route route, CUstream stream,
			      bool own, CUresult r)
{
	uint64_t context = 0;
	int device;

	if (!route.record)
		return r;
	if (r == CUDA_SUCCESS)
		cuda_current_context(&context, &device);
	captures_begun(stream, cuda_is_per_thread(call->hook), context, r == CUDA_SUCCESS);
	if (r == CUDA_SUCCESS && own)
		cuda_graph_begun(call, stream);
	else if (r == CUDA_SUCCESS)
		captures_set_into_graph(stream, cuda_is_per_thread(call->hook));
	return r;
}

static struct route beginning(struct route route)
{
	if (route.record)
		captures_beginning();
	return route;
}

static CUresult body_begin(struct call *call, struct route route, CUstream stream)
{
	route = beginning(route);
	return begun_capture(call, route, stream, true,
			     DRIVER_CALL(route.real, CUresult(*)(CUstream), (stream)));
}
#define body_cuStreamBeginCapture body_begin
#define body_cuStreamBeginCapture_ptsz body_begin
CUDA_HAND(cuStreamBeginCapture, (CUstream hStream), (&call, route, hStream))
CUDA_HAND(cuStreamBeginCapture_ptsz, (CUstream hStream), (&call, route, hStream))

static CUresult body_begin_v2(struct call *call, struct route route, CUstream stream,
			      CUstreamCaptureMode mode)
{
	route = beginning(route);
	return begun_capture(call, route, stream, true,
			     DRIVER_CALL(route.real, CUresult(*)(CUstream, CUstreamCaptureMode),
					 (stream, mode)));
}
#define body_cuStreamBeginCapture_v2 body_begin_v2
#define body_cuStreamBeginCapture_v2_ptsz body_begin_v2
CUDA_HAND(cuStreamBeginCapture_v2, (CUstream hStream, CUstreamCaptureMode mode),
	  (&call, route, hStream, mode))
CUDA_HAND(cuStreamBeginCapture_v2_ptsz, (CUstream hStream, CUstreamCaptureMode mode),
	  (&call, route, hStream, mode))

static CUresult body_begin_into(struct call *call, struct route route, CUstream stream,
				CUgraph graph, const CUgraphNode *dependencies,
				const CUgraphEdgeData *edges, size_t count,
				CUstreamCaptureMode mode)
{
	route = beginning(route);
	return begun_capture(call, route, stream, false,
			     DRIVER_CALL(route.real,
					 CUresult(*)(CUstream, CUgraph, const CUgraphNode *,
						     const CUgraphEdgeData *, size_t,
						     CUstreamCaptureMode),
					 (stream, graph, dependencies, edges, count, mode)));
}
#define body_cuStreamBeginCaptureToGraph body_begin_into
#define body_cuStreamBeginCaptureToGraph_ptsz body_begin_into
CUDA_HAND(cuStreamBeginCaptureToGraph,
	  (CUstream hStream, CUgraph hGraph, const CUgraphNode *dependencies,
	   const CUgraphEdgeData *dependencyData, size_t numDependencies, CUstreamCaptureMode mode),
	  (&call, route, hStream, hGraph, dependencies, dependencyData, numDependencies, mode))
CUDA_HAND(cuStreamBeginCaptureToGraph_ptsz,
	  (CUstream hStream, CUgraph hGraph, const CUgraphNode *dependencies,
	   const CUgraphEdgeData *dependencyData, size_t numDependencies, CUstreamCaptureMode mode),
	  (&call, route, hStream, hGraph, dependencies, dependencyData, numDependencies, mode))

static CUresult body_begin_again(struct call *call, struct route route, CUstream stream,
				 CUstreamCaptureMode mode, CUgraph graph,
				 CUgraphRecaptureCallback callback, void *user_data)
{
	route = beginning(route);
	return begun_capture(call, route, stream, false,
			     DRIVER_CALL(route.real,
					 CUresult(*)(CUstream, CUstreamCaptureMode, CUgraph,
						     CUgraphRecaptureCallback, void *),
					 (stream, mode, graph, callback, user_data)));
}
#define body_cuStreamBeginRecaptureToGraph body_begin_again
#define body_cuStreamBeginRecaptureToGraph_ptsz body_begin_again
CUDA_HAND(cuStreamBeginRecaptureToGraph,
	  (CUstream hStream, CUstreamCaptureMode mode, CUgraph hGraph,
	   CUgraphRecaptureCallback callbackFunc, void *userData),
	  (&call, route, hStream, mode, hGraph, callbackFunc, userData))
CUDA_HAND(cuStreamBeginRecaptureToGraph_ptsz,
	  (CUstream hStream, CUstreamCaptureMode mode, CUgraph hGraph,
	   CUgraphRecaptureCallback callbackFunc, void *userData),
	  (&call, route, hStream, mode, hGraph, callbackFunc, userData))

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

static CUresult body_end(struct call *call, struct route route, CUstream stream,
			 CUgraph *graph)
{
	bool per_thread = cuda_is_per_thread(call->hook);
	uint64_t capture = route.record ? captures_of(stream, per_thread) : 0;
	bool makes_graph = captures_makes_graph(capture);
	CUresult r = DRIVER_CALL(route.real, CUresult(*)(CUstream, CUgraph *), (stream, graph));

	if (capture && capture_is_over(call->hook, stream, r))
		captures_ended(capture);
	if (r == CUDA_SUCCESS && makes_graph && graph)
		cuda_record_object_once(call, (uint64_t)(uintptr_t)*graph);
	return r;
}
#define body_cuStreamEndCapture body_end
#define body_cuStreamEndCapture_ptsz body_end
CUDA_HAND(cuStreamEndCapture, (CUstream hStream, CUgraph *phGraph),
	  (&call, route, hStream, phGraph))
CUDA_HAND(cuStreamEndCapture_ptsz, (CUstream hStream, CUgraph *phGraph),
	  (&call, route, hStream, phGraph))

static CUresult body_destroy(struct call *call, struct route route, CUstream stream)
{
	uint64_t capture = route.record ? captures_of(stream, false) : 0;
	struct freeing freeing;
	CUresult r;

	cuda_object_ending(call, (uint64_t)(uintptr_t)stream, route.record, &freeing);
	r = DRIVER_CALL(route.real, CUresult(*)(CUstream), (stream));
	cuda_object_ended(call, 0, &freeing, r);
	if (r == CUDA_SUCCESS)
		captures_ended(capture);
	return r;
}
#define body_cuStreamDestroy body_destroy
#define body_cuStreamDestroy_v2 body_destroy
CUDA_HAND(cuStreamDestroy, (CUstream hStream), (&call, route, hStream))
CUDA_HAND(cuStreamDestroy_v2, (CUstream hStream), (&call, route, hStream))

/* ---- waits ---- */

/* Returns the context that the call waited for. Returns 0 for a green context: the rest of its
 * primary context may still have work. */
static uint64_t waited_for(CUcontext context)
{
	CUresult (*get)(CUcontext *) =
		(CUresult(*)(CUcontext *))resolve_used(USED_cuCtxGetCurrent);

	if (!context && (!get || get(&context) != CUDA_SUCCESS))
		return 0;
	return cuda_is_green(context) ? 0 : (uint64_t)(uintptr_t)context;
}

static CUresult waited(struct route route, CUcontext context, uint64_t epoch, CUresult r)
{
	uint64_t idle;

	if (r == CUDA_SUCCESS && route.record &&
	    atomic_load_explicit(&pool_on, memory_order_relaxed) && (idle = waited_for(context)))
		pool_context_idle(idle, epoch);
	return r;
}

static CUresult body_cuCtxSynchronize(struct route route)
{
	uint64_t epoch = submits_epoch();

	return waited(route, NULL, epoch, DRIVER_CALL(route.real, CUresult(*)(void), ()));
}
CUDA_HAND(cuCtxSynchronize, (void), (route))

static CUresult body_cuCtxSynchronize_v2(struct route route, CUcontext context)
{
	uint64_t epoch = submits_epoch();

	return waited(route, context, epoch,
		      DRIVER_CALL(route.real, CUresult(*)(CUcontext), (context)));
}
CUDA_HAND(cuCtxSynchronize_v2, (CUcontext ctx), (route, ctx))
