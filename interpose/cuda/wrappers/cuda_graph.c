/* SPDX-License-Identifier: MIT
 *
 * Memory of CUDA graphs. A node that allocates has an address at once, but memory only after a
 * launch. Owns the lists of such nodes, by graph and by executable graph; blocks.c owns the live
 * blocks. Its lock protects only these lists and is never held during a call.
 */
#include "interpose/cuda/wrappers/cuda_graph.h"

#include "interpose/block/blocks.h"
#include "interpose/block/driver_call.h"
#include "interpose/cuda/wrappers/cuda_calls.h"
#include "interpose/block/limit.h"
#include "interpose/cuda/pool/pool_retry.h"
#include "interpose/recorder/recorder.h"
#include "interpose/dispatch/resolve.h"
#include "interpose/base/submit_epoch.h"
#include "interpose/base/hash.h"

/* Records CALL, which needed BYTES for a graph (0: unknown), if R means that memory ran out.
 * Returns R. */
static CUresult note_refusal(const struct call *call, struct route route, CUresult r,
			     uint64_t bytes)
{
	return route.record ? cuda_note_refusal(call, r, LIMITS_CURRENT, bytes) : r;
}

/* DRIVER_CALL for an instantiation. If the driver is out of memory, the pool returns some and the
 * call is repeated. */
#define INSTANTIATE(type, arguments) \
	note_refusal(&call, route,                                                          \
		     POOL_TRY(DRIVER_CALL(route.real, type, arguments), LIMITS_CURRENT), 0)

/* EXPRESSION may use `growth`, which has begun before it is evaluated. */
#define MEASURED(expression)                                                                \
	({                                                                                  \
		struct driver_growth growth = { 0 };                                        \
		if (route.record)                                                           \
			driver_growth_begin(&growth, API_CUDA, -1);                         \
		expression;                                                                 \
	})

enum { NODE_GRAPH = 4, NODE_MEM_ALLOC = 10, NODE_MEM_FREE = 11 }; /* CUgraphNodeType */
enum { AUTO_FREE_ON_LAUNCH = 1, UPLOAD = 2, DEVICE_LAUNCH = 4 };   /* CUgraphInstantiate_flags */
enum { OWNERSHIP_MOVE = 1 };

/* What a launch does with an address: allocates or frees it. */
struct act {
	uint64_t address;
	uint64_t bytes;
	struct hook *maker; /* the call that made the node; NULL: a free node */
	uint32_t stack;     /* stack of that call */
	int device;
};

struct node {
	uint64_t address;
	struct act act;
	UT_hash_handle hh;
};

/* Only graphs with such nodes are listed; most graphs have none. */
struct graph {
	uint64_t handle;
	struct node *nodes;
	UT_hash_handle hh;
};
struct graph_exec {
	uint64_t handle;
	bool frees_at_launch; /* it first frees what the previous launch left allocated */
	unsigned int count;
	struct act *acts;
	UT_hash_handle hh;
};

/* Number of listed graphs and executable graphs. If it is 0, no lookup is needed. */
static _Atomic unsigned int listed;

/* Returns true if anything is listed. A forked child inherits the count, but has no recorder and no
 * lists. */
static bool any_listed(void)
{
	return __builtin_expect(atomic_load_explicit(&listed, memory_order_relaxed) != 0, 0) &&
	       recorder_now();
}

/* ---- the lists; Locking: recorder->graphs->lock ---- */

static struct graph *find_graph(struct recorder *recorder, CUgraph handle)
{
	uint64_t key = (uint64_t)(uintptr_t)handle;
	struct graph *graph;

	TABLE_FIND(recorder->graphs->graphs, &key, graph);
	return graph;
}

static struct graph_exec *find_exec(struct recorder *recorder, CUgraphExec handle)
{
	uint64_t key = (uint64_t)(uintptr_t)handle;
	struct graph_exec *exec;

	TABLE_FIND(recorder->graphs->execs, &key, exec);
	return exec;
}

static bool list_graph(struct recorder *recorder, struct graph *graph)
{
	struct arena *arena = &recorder->arena;

	TABLE_ADD(recorder->graphs->graphs, handle, graph);
	if (!graph->hh.tbl)
		return false;
	atomic_fetch_add(&listed, 1);
	return true;
}

static void unlist_graph(struct recorder *recorder, struct graph *graph)
{
	struct arena *arena = &recorder->arena;

	HASH_DEL(recorder->graphs->graphs, graph);
	atomic_fetch_sub(&listed, 1);
}

static bool list_exec(struct recorder *recorder, struct graph_exec *exec)
{
	struct arena *arena = &recorder->arena;

	TABLE_ADD(recorder->graphs->execs, handle, exec);
	if (!exec->hh.tbl)
		return false;
	atomic_fetch_add(&listed, 1);
	return true;
}

static void unlist_exec(struct recorder *recorder, struct graph_exec *exec)
{
	struct arena *arena = &recorder->arena;

	HASH_DEL(recorder->graphs->execs, exec);
	atomic_fetch_sub(&listed, 1);
}

/* ---- graphs and their nodes ---- */

static void free_graph(struct recorder *recorder, struct graph *graph)
{
	struct arena *arena = &recorder->arena;
	struct node *node;

	while ((node = graph->nodes)) {
		HASH_DEL(graph->nodes, node);
		arena_give(arena, node, sizeof(*node));
	}
	arena_give(arena, graph, sizeof(*graph));
}

static void free_exec(struct recorder *recorder, struct graph_exec *exec)
{
	arena_give(&recorder->arena, exec->acts, exec->count * sizeof(*exec->acts));
	arena_give(&recorder->arena, exec, sizeof(*exec));
}

/* Adds ACT as a node of GRAPH. If the graph both allocates and frees an address, nothing remains
 * after a launch, so both nodes leave the list. A driver that calls its own exported names reports
 * a node twice: the later report is from the outer call and replaces the earlier one. */
static bool add_node(struct recorder *recorder, struct graph *graph, const struct act *act)
{
	struct arena *arena = &recorder->arena;
	struct node *node;

	TABLE_FIND(graph->nodes, &act->address, node);
	if (node && !node->act.maker == !act->maker) {
		node->act = *act;
		return true;
	}
	if (node) {
		HASH_DEL(graph->nodes, node);
		arena_give(arena, node, sizeof(*node));
		return true;
	}
	node = arena_take(arena, sizeof(*node));
	if (!node)
		return false;
	node->address = act->address;
	node->act = *act;
	TABLE_ADD(graph->nodes, address, node);
	if (node->hh.tbl)
		return true;
	arena_give(arena, node, sizeof(*node));
	return false;
}

static struct graph *find_or_make_graph(struct recorder *recorder, CUgraph handle)
{
	struct graph *graph = find_graph(recorder, handle);

	if (graph)
		return graph;
	graph = arena_take(&recorder->arena, sizeof(*graph));
	if (!graph)
		return NULL;
	graph->handle = (uint64_t)(uintptr_t)handle;
	if (list_graph(recorder, graph))
		return graph;
	arena_give(&recorder->arena, graph, sizeof(*graph));
	return NULL;
}

static void drop_if_empty(struct recorder *recorder, struct graph *graph)
{
	if (!graph || graph->nodes)
		return;
	unlist_graph(recorder, graph);
	free_graph(recorder, graph);
}

static void node_insert(CUgraph handle, const struct act *act)
{
	struct recorder *recorder;
	struct graph *graph;
	bool added;

	if (!handle || !act->address || !(recorder = recorder_enter()))
		return;
	lock_take(&recorder->graphs->lock);
	graph = find_or_make_graph(recorder, handle);
	added = graph && add_node(recorder, graph, act);
	drop_if_empty(recorder, graph);
	lock_give(&recorder->graphs->lock);
	if (!added && act->maker) {
		ledger_trouble(recorder->header, LEDGER_TROUBLE_UNRECORDED_BLOCKS, 1);
		ledger_trouble(recorder->header, LEDGER_TROUBLE_UNRECORDED_BYTES, act->bytes);
	}
	recorder_leave();
}

/* DEVICE -1: the current device. */
static void add_alloc(struct call *call, CUgraph graph, uint64_t address, uint64_t bytes,
		      int device)
{
	struct act act = {
		.address = address,
		.bytes = bytes,
		.maker = hook_making(call->hook, "graph"),
		.device = device,
	};
	uint64_t context;

	if (!act.maker)
		return;
	if (device < 0)
		cuda_current_context(&context, &act.device);
	act.stack = record_origin(call);
	node_insert(graph, &act);
}

static void add_free(CUgraph graph, uint64_t address)
{
	struct act act = { .address = address, .device = -1 };

	node_insert(graph, &act);
}

/* Removes a graph from the list before the driver destroys it, since another thread may get the
 * handle at once. settle_graph() adds the graph again if the driver's call fails. */
static struct graph *take_graph(CUgraph handle)
{
	struct recorder *recorder;
	struct graph *graph;

	if (!any_listed() || !(recorder = recorder_enter()))
		return NULL;
	lock_take(&recorder->graphs->lock);
	graph = find_graph(recorder, handle);
	if (graph)
		unlist_graph(recorder, graph);
	lock_give(&recorder->graphs->lock);
	recorder_leave();
	return graph;
}

static void settle_graph(struct graph *graph, bool gone)
{
	struct recorder *recorder;

	if (!graph || !(recorder = recorder_enter()))
		return;
	lock_take(&recorder->graphs->lock);
	if (gone || find_graph(recorder, (CUgraph)(uintptr_t)graph->handle) ||
	    !list_graph(recorder, graph))
		free_graph(recorder, graph);
	lock_give(&recorder->graphs->lock);
	recorder_leave();
}

/* HANDLE is a new graph. If an older graph is listed under HANDLE, its end was not seen: a capture
 * that fails destroys its graph and does not return the handle. */
static void begun(CUgraph handle)
{
	settle_graph(take_graph(handle), true);
}

static CUresult graph_made(struct call *call, struct route route, const CUgraph *handle, CUresult r)
{
	if (r != CUDA_SUCCESS || !route.record || !handle)
		return r;
	if (any_listed())
		begun(*handle);
	cuda_record_object(call, (uint64_t)(uintptr_t)*handle, 1);
	return r;
}

/* CALL made CHILD a part of PARENT. So CHILD ends, and its nodes become nodes of PARENT. */
static void move_graph(const struct call *call, CUgraph parent, CUgraph child)
{
	struct call ending = { &hooks[HOOK_cuGraphDestroy], call->caller };
	struct graph *from = take_graph(child);
	struct freeing freeing;

	cuda_object_ending(&ending, (uint64_t)(uintptr_t)child, 1, &freeing);
	cuda_object_ended(&ending, 0, &freeing, CUDA_SUCCESS);

	for (struct node *node = from ? from->nodes : NULL; node; node = node->hh.next)
		node_insert(parent, &node->act);
	settle_graph(from, true);
}

/* ---- capture ---- */

typedef CUresult capture_info_v2(CUstream, CUstreamCaptureStatus *, cuuint64_t *, CUgraph *,
				 const CUgraphNode **, size_t *);
typedef CUresult capture_info_v3(CUstream, CUstreamCaptureStatus *, cuuint64_t *, CUgraph *,
				 const CUgraphNode **, const CUgraphEdgeData **, size_t *);

/* Returns the graph that STREAM is captured into, or NULL. The query is permitted during capture
 * from any thread and in each mode (seen on an H200). */
static CUgraph captured_graph(const struct hook *hook, CUstream stream)
{
	bool own = cuda_is_per_thread(hook);
	capture_info_v2 *v2 = (capture_info_v2 *)resolve_used(
		own ? USED_cuStreamGetCaptureInfo_v2_ptsz : USED_cuStreamGetCaptureInfo_v2);
	capture_info_v3 *v3 =
		v2 ? NULL
		   : (capture_info_v3 *)resolve_used(own ? USED_cuStreamGetCaptureInfo_v3_ptsz
							 : USED_cuStreamGetCaptureInfo_v3);
	CUstreamCaptureStatus status = 0;
	CUgraph graph = NULL;
	CUresult r = CUDA_ERROR_NOT_FOUND;

	if (v2)
		r = v2(stream, &status, NULL, &graph, NULL, NULL);
	else if (v3)
		r = v3(stream, &status, NULL, &graph, NULL, NULL, NULL);
	return r == CUDA_SUCCESS && status == 1 ? graph : NULL; /* 1: active */
}

void cuda_graph_captured(struct call *call, CUstream stream, uint64_t address,
			 uint64_t bytes)
{
	add_alloc(call, captured_graph(call->hook, stream), address, bytes, -1);
}

void cuda_graph_captured_free(struct call *call, CUstream stream, uint64_t address)
{
	add_free(captured_graph(call->hook, stream), address);
}

void cuda_graph_begun(struct call *call, CUstream stream)
{
	if (any_listed())
		begun(captured_graph(call->hook, stream));
}

/* ---- nodes added by calls ---- */

static int device_of(const CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
	return params->poolProps.locationType == LOCATION_DEVICE ? params->poolProps.locationId
								 : -1;
}

#define body_cuGraphCreate(graph, flags)                                                    \
	graph_made(&call, route, graph,                                                     \
		   DRIVER_CALL(route.real, CUresult (*)(CUgraph *, unsigned int), (graph, flags)))
CUDA_HAND(cuGraphCreate, (CUgraph *phGraph, unsigned int flags), (phGraph, flags))

#define body_cuGraphClone(clone, original)                                                  \
	graph_made(&call, route, clone,                                                     \
		   DRIVER_CALL(route.real, CUresult (*)(CUgraph *, CUgraph), (clone, original)))
CUDA_HAND(cuGraphClone, (CUgraph *phGraphClone, CUgraph originalGraph),
	  (phGraphClone, originalGraph))

static CUresult body_cuGraphDestroy(struct call *call, struct route route, CUgraph handle)
{
	struct graph *graph = route.record ? take_graph(handle) : NULL;
	struct freeing freeing;
	CUresult r;

	cuda_object_ending(call, (uint64_t)(uintptr_t)handle, route.record, &freeing);
	r = DRIVER_CALL(route.real, CUresult(*)(CUgraph), (handle));
	cuda_object_ended(call, 0, &freeing, r);
	settle_graph(graph, r == CUDA_SUCCESS);
	return r;
}
CUDA_HAND(cuGraphDestroy, (CUgraph hGraph), (&call, route, hGraph))

/* Returns true if GPULEAK_FAIL_AT refuses this call. A limit on bytes cannot: a node takes no
 * memory yet. */
static bool node_refused(struct call *call, struct route route, CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
	if (!route.record || !params || !LIMITS_REFUSE(call, LIMITS_NO_DEVICE, 0))
		return false;
	params->dptr = 0;
	return true;
}

static CUresult body_cuGraphAddMemAllocNode(struct call *call, struct route route,
					    CUgraphNode *node, CUgraph graph,
					    const CUgraphNode *dependencies, size_t count,
					    CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
	CUresult r;

	if (node_refused(call, route, params))
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = DRIVER_CALL(route.real,
			CUresult(*)(CUgraphNode *, CUgraph, const CUgraphNode *, size_t,
				    CUDA_MEM_ALLOC_NODE_PARAMS *),
			(node, graph, dependencies, count, params));
	if (r == CUDA_SUCCESS && route.record && params)
		add_alloc(call, graph, params->dptr, params->bytesize, device_of(params));
	return note_refusal(call, route, r, params ? params->bytesize : 0);
}
CUDA_HAND(cuGraphAddMemAllocNode,
	  (CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
	   size_t numDependencies, CUDA_MEM_ALLOC_NODE_PARAMS *nodeParams),
	  (&call, route, phGraphNode, hGraph, dependencies, numDependencies, nodeParams))

static CUresult body_cuGraphAddMemFreeNode(struct route route, CUgraphNode *node, CUgraph graph,
					   const CUgraphNode *dependencies, size_t count,
					   CUdeviceptr address)
{
	CUresult r = DRIVER_CALL(route.real,
				 CUresult(*)(CUgraphNode *, CUgraph, const CUgraphNode *, size_t,
					     CUdeviceptr),
				 (node, graph, dependencies, count, address));

	if (r == CUDA_SUCCESS && route.record)
		add_free(graph, address);
	return r;
}
CUDA_HAND(cuGraphAddMemFreeNode,
	  (CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
	   size_t numDependencies, CUdeviceptr dptr),
	  (route, phGraphNode, hGraph, dependencies, numDependencies, dptr))

static CUresult added(struct call *call, struct route route, CUgraph graph,
		      const CUgraphNodeParams *params, CUresult r)
{
	if (r != CUDA_SUCCESS || !route.record || !params)
		return note_refusal(call, route, r,
				    params && params->type == NODE_MEM_ALLOC
					    ? params->alloc.bytesize
					    : 0);
	if (params->type == NODE_MEM_ALLOC)
		add_alloc(call, graph, params->alloc.dptr, params->alloc.bytesize,
			  device_of(&params->alloc));
	else if (params->type == NODE_MEM_FREE)
		add_free(graph, params->free.dptr);
	else if (params->type == NODE_GRAPH && params->graph.ownership == OWNERSHIP_MOVE)
		move_graph(call, graph, params->graph.graph);
	return r;
}

#define REFUSED(params)                                                                     \
	((params) && (params)->type == NODE_MEM_ALLOC &&                                    \
	 node_refused(&call, route, &(params)->alloc))
#define body_cuGraphAddNode(node, graph, dependencies, count, params)                         \
	REFUSED(params)                                                                       \
		? CUDA_ERROR_OUT_OF_MEMORY                                                    \
		: added(&call, route, graph, params,                                          \
			DRIVER_CALL(route.real,                                               \
				    CUresult (*)(CUgraphNode *, CUgraph, const CUgraphNode *, \
						 size_t, CUgraphNodeParams *),                \
				    (node, graph, dependencies, count, params)))
#define body_cuGraphAddNode_v2(node, graph, dependencies, edges, count, params)               \
	REFUSED(params)                                                                       \
		? CUDA_ERROR_OUT_OF_MEMORY                                                    \
		: added(&call, route, graph, params,                                          \
			DRIVER_CALL(route.real,                                               \
				    CUresult (*)(CUgraphNode *, CUgraph, const CUgraphNode *, \
						 const CUgraphEdgeData *, size_t,             \
						 CUgraphNodeParams *),                        \
				    (node, graph, dependencies, edges, count, params)))
CUDA_HAND(cuGraphAddNode,
	  (CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
	   size_t numDependencies, CUgraphNodeParams *nodeParams),
	  (phGraphNode, hGraph, dependencies, numDependencies, nodeParams))
CUDA_HAND(cuGraphAddNode_v2,
	  (CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
	   const CUgraphEdgeData *dependencyData, size_t numDependencies,
	   CUgraphNodeParams *nodeParams),
	  (phGraphNode, hGraph, dependencies, dependencyData, numDependencies, nodeParams))

/* ---- executable graphs ---- */

/* Locking: needs recorder->graphs->lock. Copies the present nodes of GRAPH into a new executable
 * graph. */
static struct graph_exec *make_exec(struct recorder *recorder, const struct graph *graph)
{
	struct graph_exec *exec = arena_take(&recorder->arena, sizeof(*exec));
	unsigned int nodes = graph->nodes ? HASH_COUNT(graph->nodes) : 0;

	if (!exec || !nodes)
		return exec;
	exec->acts = arena_take(&recorder->arena, nodes * sizeof(*exec->acts));
	if (!exec->acts) {
		arena_give(&recorder->arena, exec, sizeof(*exec));
		return NULL;
	}
	for (const struct node *node = graph->nodes; node; node = node->hh.next)
		exec->acts[exec->count++] = node->act;
	return exec;
}

static void drop_exec(struct recorder *recorder, struct graph_exec *exec)
{
	if (!exec)
		return;
	unlist_exec(recorder, exec);
	free_exec(recorder, exec);
}

/* The executable graph HANDLE now does what the graph OF does. FLAGS NULL: an update, which keeps
 * the flags of the instantiation. */
static void instantiated(CUgraphExec handle, CUgraph of, const unsigned long long *flags)
{
	struct recorder *recorder;
	struct graph_exec *exec;
	struct graph *graph;
	bool frees_at_launch;

	if (!any_listed() || !handle || !(recorder = recorder_enter()))
		return;
	lock_take(&recorder->graphs->lock);
	exec = find_exec(recorder, handle);
	frees_at_launch = flags ? *flags & AUTO_FREE_ON_LAUNCH : exec && exec->frees_at_launch;
	drop_exec(recorder, exec);
	graph = find_graph(recorder, of);
	exec = graph ? make_exec(recorder, graph) : NULL;
	if (exec) {
		exec->handle = (uint64_t)(uintptr_t)handle;
		exec->frees_at_launch = frees_at_launch;
		if (!list_exec(recorder, exec))
			free_exec(recorder, exec);
	}
	lock_give(&recorder->graphs->lock);
	recorder_leave();
}

/* A graph with DEVICE_LAUNCH may be launched by a kernel, which calls no wrapper. */
static CUresult instantiated_if(struct call *call, struct route route, CUgraphExec *exec,
				CUgraph graph, unsigned long long flags,
				struct driver_growth *growth, CUresult r)
{
	driver_growth_end(growth);
	if (flags & UPLOAD)
		submits_note();
	if (flags & DEVICE_LAUNCH)
		submits_unknown();
	if (r == CUDA_SUCCESS && route.record && exec) {
		instantiated(*exec, graph, &flags);
		driver_cost_record(call, growth->device, growth, 0);
		cuda_record_object(call, (uint64_t)(uintptr_t)*exec, 1);
	}
	return r;
}

static CUresult updated_if(struct route route, CUgraphExec exec, CUgraph graph, CUresult r)
{
	if (r == CUDA_SUCCESS && route.record)
		instantiated(exec, graph, NULL);
	return r;
}

#define body_cuGraphExecUpdate(exec, graph, error, result)                       \
	updated_if(route, exec, graph,                                           \
		   DRIVER_CALL(route.real,                                       \
			       CUresult (*)(CUgraphExec, CUgraph, CUgraphNode *, \
					    CUgraphExecUpdateResult *),          \
			       (exec, graph, error, result)))
#define body_cuGraphExecUpdate_v2(exec, graph, info)                                              \
	updated_if(route, exec, graph,                                                            \
		   DRIVER_CALL(route.real,                                                        \
			       CUresult (*)(CUgraphExec, CUgraph, CUgraphExecUpdateResultInfo *), \
			       (exec, graph, info)))
CUDA_HAND(cuGraphExecUpdate,
	  (CUgraphExec hGraphExec, CUgraph hGraph, CUgraphNode *hErrorNode_out,
	   CUgraphExecUpdateResult *updateResult_out),
	  (hGraphExec, hGraph, hErrorNode_out, updateResult_out))
CUDA_HAND(cuGraphExecUpdate_v2,
	  (CUgraphExec hGraphExec, CUgraph hGraph, CUgraphExecUpdateResultInfo *resultInfo),
	  (hGraphExec, hGraph, resultInfo))

#define body_cuGraphInstantiate(exec, graph, error, log, size)                                  \
	MEASURED(instantiated_if(&call, route, exec, graph, 0, &growth,                         \
				 INSTANTIATE(CUresult (*)(CUgraphExec *, CUgraph, CUgraphNode *, \
							  char *, size_t),                      \
					     (exec, graph, error, log, size))))
#define body_cuGraphInstantiate_v2 body_cuGraphInstantiate
CUDA_HAND(cuGraphInstantiate,
	  (CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode, char *logBuffer,
	   size_t bufferSize),
	  (phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize))
CUDA_HAND(cuGraphInstantiate_v2,
	  (CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode, char *logBuffer,
	   size_t bufferSize),
	  (phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize))

#define body_cuGraphInstantiateWithFlags(exec, graph, flags)                                  \
	MEASURED(instantiated_if(&call, route, exec, graph, flags, &growth,                   \
				 INSTANTIATE(CUresult (*)(CUgraphExec *, CUgraph,             \
							  unsigned long long),                \
					     (exec, graph, flags))))
CUDA_HAND(cuGraphInstantiateWithFlags,
	  (CUgraphExec *phGraphExec, CUgraph hGraph, unsigned long long flags),
	  (phGraphExec, hGraph, flags))

#define body_cuGraphInstantiateWithParams(exec, graph, params)                     \
	MEASURED(instantiated_if(&call, route, exec, graph, params ? params->flags : 0, &growth, \
				 INSTANTIATE(CUresult (*)(CUgraphExec *, CUgraph,                \
							  CUDA_GRAPH_INSTANTIATE_PARAMS *),      \
					     (exec, graph, params))))
#define body_cuGraphInstantiateWithParams_ptsz body_cuGraphInstantiateWithParams
CUDA_HAND(cuGraphInstantiateWithParams,
	  (CUgraphExec *phGraphExec, CUgraph hGraph,
	   CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams),
	  (phGraphExec, hGraph, instantiateParams))
CUDA_HAND(cuGraphInstantiateWithParams_ptsz,
	  (CUgraphExec *phGraphExec, CUgraph hGraph,
	   CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams),
	  (phGraphExec, hGraph, instantiateParams))

static struct graph_exec *take_exec(CUgraphExec handle)
{
	struct recorder *recorder;
	struct graph_exec *exec;

	if (!any_listed() || !(recorder = recorder_enter()))
		return NULL;
	lock_take(&recorder->graphs->lock);
	exec = find_exec(recorder, handle);
	if (exec)
		unlist_exec(recorder, exec);
	lock_give(&recorder->graphs->lock);
	recorder_leave();
	return exec;
}

static void settle_exec(struct graph_exec *exec, bool gone)
{
	struct recorder *recorder;

	if (!exec || !(recorder = recorder_enter()))
		return;
	lock_take(&recorder->graphs->lock);
	if (gone || find_exec(recorder, (CUgraphExec)(uintptr_t)exec->handle) ||
	    !list_exec(recorder, exec))
		free_exec(recorder, exec);
	lock_give(&recorder->graphs->lock);
	recorder_leave();
}

/* Memory that its launches allocated stays allocated, also when the graph is destroyed (seen on an
 * H200). */
static CUresult body_cuGraphExecDestroy(struct call *call, struct route route, CUgraphExec handle)
{
	struct graph_exec *exec = route.record ? take_exec(handle) : NULL;
	struct freeing freeing;
	CUresult r;

	cuda_object_ending(call, (uint64_t)(uintptr_t)handle, route.record, &freeing);
	r = DRIVER_CALL(route.real, CUresult(*)(CUgraphExec), (handle));
	cuda_object_ended(call, 0, &freeing, r);
	settle_exec(exec, r == CUDA_SUCCESS);
	return r;
}
CUDA_HAND(cuGraphExecDestroy, (CUgraphExec hGraphExec), (&call, route, hGraphExec))

/* ---- launch ---- */

/* One call of cuGraphLaunch. `steps` is a copy of the executable graph's allocations and frees,
 * because another thread may destroy the executable graph during the call. */
struct launch {
	struct recorder *recorder; /* the recorder whose arena has `steps` */
	bool frees_at_launch;
	unsigned int count;
	struct step {
		struct act act;
		struct freeing freeing;
	} *steps;
};

static bool copy_exec(struct recorder *recorder, const struct graph_exec *exec,
		      struct launch *ret)
{
	struct step *steps = NULL;

	if (exec && exec->count)
		steps = arena_take(&recorder->arena, exec->count * sizeof(*steps));
	if (!steps)
		return false;
	for (unsigned int i = 0; i < exec->count; i++)
		steps[i].act = exec->acts[i];
	*ret = (struct launch){ recorder, exec->frees_at_launch, exec->count, steps };
	return true;
}

static bool find_launch(CUgraphExec handle, struct launch *ret)
{
	struct recorder *recorder = recorder_enter();
	bool found;

	if (!recorder)
		return false;
	lock_take(&recorder->graphs->lock);
	found = copy_exec(recorder, find_exec(recorder, handle), ret);
	lock_give(&recorder->graphs->lock);
	recorder_leave();
	return found;
}

static void end_launch(struct launch *launch)
{
	struct recorder *recorder = recorder_enter();

	if (!recorder)
		return;
	if (recorder == launch->recorder)
		arena_give(&recorder->arena, launch->steps, launch->count * sizeof(*launch->steps));
	recorder_leave();
}

/* Blocks that the launch frees leave the table before the driver's call, as for any free. */
static void launching(struct call *call, struct launch *launch)
{
	for (unsigned int i = 0; i < launch->count; i++) {
		struct step *step = &launch->steps[i];

		if (!step->act.maker || launch->frees_at_launch)
			record_freeing(call, step->act.address, &step->freeing);
	}
}

static void launched(struct call *call, struct launch *launch)
{
	for (unsigned int i = 0; i < launch->count; i++) {
		struct step *step = &launch->steps[i];

		if (!step->act.maker || step->freeing.block)
			record_freed(call, &step->freeing, OUTCOME_DONE, CUDA_SUCCESS);
	}
	for (unsigned int i = 0; i < launch->count; i++) {
		const struct act *act = &launch->steps[i].act;
		struct call from = { act->maker, NULL, SPACE_MEMORY };

		if (act->maker)
			record_made_from(&from, act->stack, act->address, act->bytes,
					 act->device);
	}
}

/* Returns true if memory that the executable graph allocated is still allocated: then the driver
 * refuses another launch. */
static bool is_in_its_own_way(struct call *call, const struct launch *launch)
{
	for (unsigned int i = 0; i < launch->count; i++)
		if (launch->steps[i].act.maker && !launch->frees_at_launch &&
		    record_is_live(call, launch->steps[i].act.address))
			return true;
	return false;
}

/* The launch failed, so nothing was allocated or freed. If a free node's address is not allocated,
 * it is recorded as an invalid free. */
static void not_launched(struct call *call, struct launch *launch, CUresult r)
{
	bool judged = cuda_outcome(r) == OUTCOME_INVALID && !is_in_its_own_way(call, launch);

	for (unsigned int i = 0; i < launch->count; i++) {
		struct step *step = &launch->steps[i];

		if (step->freeing.block)
			record_kept(&step->freeing);
		else if (judged && !step->act.maker)
			record_freed(call, &step->freeing, OUTCOME_INVALID, r);
	}
}

/* The memory that a launch allocates and does not free. If the graph spans several devices, only
 * the memory on the first one. */
struct launch_memory {
	const struct hook *hook; /* NULL: the launch leaves no memory allocated */
	uint64_t bytes;
	int device;
};

static struct launch_memory memory_of(const struct launch *launch)
{
	struct launch_memory ret = { NULL, 0, LIMITS_NO_DEVICE };

	for (unsigned int i = 0; i < launch->count; i++) {
		const struct step *step = &launch->steps[i];

		if (!step->act.maker || step->freeing.block)
			continue;
		if (!ret.hook)
			ret.device = step->act.device;
		ret.hook = step->act.maker;
		if (step->act.device == ret.device)
			ret.bytes += step->act.bytes;
	}
	return ret;
}

/* Returns true if a limit refuses the launch. The memory that a launch leaves counts as the
 * application's. */
static bool launch_limited(struct call *call, const struct launch *launch)
{
	struct call from = { NULL, call->caller, SPACE_MEMORY };
	struct launch_memory memory;

	if (!limits_on())
		return false;
	memory = memory_of(launch);
	from.hook = (struct hook *)memory.hook;
	return from.hook && limits_exceed(&from, memory.device, memory.bytes);
}

static CUresult call_launch(struct route route, CUgraphExec exec, CUstream stream)
{
	CUresult r;

	record_call();
	r = DRIVER_CALL(route.real, CUresult(*)(CUgraphExec, CUstream), (exec, stream));
	record_call_done();
	if (!POOL_AGAIN(r, LIMITS_CURRENT))
		return r;
	record_call();
	r = DRIVER_CALL(route.real, CUresult(*)(CUgraphExec, CUstream), (exec, stream));
	record_call_done();
	return r;
}

/* Calls the driver, unless a limit refuses the launch. */
static CUresult launch_within_limit(struct call *call, struct route route,
				    const struct launch *launch, CUgraphExec exec, CUstream stream)
{
	CUresult r;

	if (launch_limited(call, launch))
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = call_launch(route, exec, stream);
	return r == CUDA_ERROR_OUT_OF_MEMORY
		       ? note_refusal(call, route, r, memory_of(launch).bytes)
		       : r;
}

static CUresult launch(struct call *call, struct route route, CUgraphExec exec,
		       CUstream stream)
{
	struct launch launch;
	CUresult r;

	if (!any_listed() || !route.record || !find_launch(exec, &launch))
		return DRIVER_CALL(route.real, CUresult(*)(CUgraphExec, CUstream), (exec, stream));
	/* A captured launch becomes a node of another graph: it allocates nothing now. */
	if (cuda_is_captured(call->hook, stream)) {
		end_launch(&launch);
		return DRIVER_CALL(route.real, CUresult(*)(CUgraphExec, CUstream), (exec, stream));
	}
	launching(call, &launch);
	r = launch_within_limit(call, route, &launch, exec, stream);
	if (r == CUDA_SUCCESS)
		launched(call, &launch);
	else
		not_launched(call, &launch, r);
	limits_done();
	end_launch(&launch);
	return r;
}

static CUresult body_launch(struct call *call, struct route route, CUgraphExec exec,
			    CUstream stream)
{
	CUresult r = launch(call, route, exec, stream);

	submits_note();
	return r;
}
#define body_cuGraphLaunch body_launch
#define body_cuGraphLaunch_ptsz body_launch
CUDA_HAND(cuGraphLaunch, (CUgraphExec hGraphExec, CUstream hStream),
	  (&call, route, hGraphExec, hStream))
CUDA_HAND(cuGraphLaunch_ptsz, (CUgraphExec hGraphExec, CUstream hStream),
	  (&call, route, hGraphExec, hStream))
