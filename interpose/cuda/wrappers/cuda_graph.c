/* SPDX-License-Identifier: MIT
 *
 * Memory of CUDA graphs. A node that allocates has an address at once, but memory only after a
 * launch. Owns the lists of such nodes, by graph and by executable graph; blocks.c owns the live
 * blocks. Its lock protects only these lists and is never held during a call.
 */
#include "interpose/cuda/wrappers/cuda_graph.h"

#include "interpose/block/blocks.h"
#include "interpose/cuda/wrappers/cuda_calls.h"
#include "interpose/guard/copies.h"
#include "interpose/guard/launches.h"
#include "interpose/block/limit.h"
#include "interpose/recorder/recorder.h"
#include "interpose/dispatch/resolve.h"
#include "interpose/base/submit_epoch.h"
#include "interpose/base/hash.h"

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

/* A graph or an executable graph. Only graphs with such nodes are listed; most graphs have none. */
struct graph {
	uint64_t handle;
	struct node *nodes; /* of a graph, by address */
	bool frees_at_launch; /* executable: first frees what the previous launch left allocated */
	unsigned int count;   /* executable: number of ... */
	struct act *acts;     /* ... what a launch does */
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

static struct graph *find(struct recorder *recorder, enum graph_list list, const void *handle)
{
	uint64_t key = (uint64_t)(uintptr_t)handle;
	struct graph *graph;

	TABLE_FIND(recorder->graphs->listed[list], &key, graph);
	return graph;
}

static bool list_add(struct recorder *recorder, enum graph_list list, struct graph *graph)
{
	if (!TABLE_ADD(&recorder->arena, recorder->graphs->listed[list], handle, graph))
		return false;
	atomic_fetch_add(&listed, 1);
	return true;
}

static void list_remove(struct recorder *recorder, enum graph_list list, struct graph *graph)
{
	TABLE_REMOVE(&recorder->arena, recorder->graphs->listed[list], graph);
	atomic_fetch_sub(&listed, 1);
}

/* ---- graphs and their nodes ---- */

static void free_graph(struct recorder *recorder, struct graph *graph)
{
	struct arena *arena = &recorder->arena;
	struct node *node;

	while ((node = graph->nodes)) {
		TABLE_REMOVE(arena, graph->nodes, node);
		arena_give(arena, node, sizeof(*node));
	}
	if (graph->acts)
		arena_give(arena, graph->acts, graph->count * sizeof(*graph->acts));
	arena_give(arena, graph, sizeof(*graph));
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
		TABLE_REMOVE(arena, graph->nodes, node);
		arena_give(arena, node, sizeof(*node));
		return true;
	}
	node = arena_take(arena, sizeof(*node));
	if (!node)
		return false;
	node->address = act->address;
	node->act = *act;
	if (TABLE_ADD(arena, graph->nodes, address, node))
		return true;
	arena_give(arena, node, sizeof(*node));
	return false;
}

static struct graph *find_or_make_graph(struct recorder *recorder, CUgraph handle)
{
	struct graph *graph = find(recorder, GRAPHS, handle);

	if (graph)
		return graph;
	graph = arena_take(&recorder->arena, sizeof(*graph));
	if (!graph)
		return NULL;
	graph->handle = (uint64_t)(uintptr_t)handle;
	if (list_add(recorder, GRAPHS, graph))
		return graph;
	arena_give(&recorder->arena, graph, sizeof(*graph));
	return NULL;
}

static void drop(struct recorder *recorder, enum graph_list list, struct graph *graph)
{
	list_remove(recorder, list, graph);
	free_graph(recorder, graph);
}

static void node_insert(CUgraph handle, const struct act *act)
{
	ENTER_PART(graphs, handle && act->address);
	struct graph *graph;
	bool added;

	if (!recorder)
		return;
	graph = find_or_make_graph(recorder, handle);
	added = graph && add_node(recorder, graph, act);
	if (graph && !graph->nodes)
		drop(recorder, GRAPHS, graph);
	if (!added && act->maker) {
		ledger_trouble(recorder->header, LEDGER_TROUBLE_UNRECORDED_BLOCKS, 1);
		ledger_trouble(recorder->header, LEDGER_TROUBLE_UNRECORDED_BYTES, act->bytes);
	}
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

/* Removes a graph from LIST before the driver destroys it, since another thread may get the handle
 * at once. settle() adds the graph again if the driver's call fails. */
static struct graph *take(enum graph_list list, const void *handle)
{
	ENTER_PART(graphs, any_listed());
	struct graph *graph = recorder ? find(recorder, list, handle) : NULL;

	if (graph)
		list_remove(recorder, list, graph);
	return graph;
}

static void settle(enum graph_list list, struct graph *graph, bool gone)
{
	ENTER_PART(graphs, graph != NULL);

	if (recorder && (gone || find(recorder, list, (void *)(uintptr_t)graph->handle) ||
			 !list_add(recorder, list, graph)))
		free_graph(recorder, graph);
}

/* Destroys the graph HANDLE of LIST. REAL is the driver's function: both handles are pointers.
 * Memory that the launches of an executable graph allocated stays allocated, also when the graph is
 * destroyed (seen on an H200). */
static CUresult destroy(struct call *call, enum graph_list list, void *real, void *handle)
{
	struct graph *graph = take(list, handle);
	struct freeing freeing;
	CUresult r;

	cuda_object_ending(call, (uint64_t)(uintptr_t)handle, 1, &freeing);
	r = DRIVER_CALL(real, CUresult(*)(void *), (handle));
	cuda_object_ended(call, 0, &freeing, r);
	settle(list, graph, r == CUDA_SUCCESS);
	return r;
}
#define destroy_graph(call, real, handle) destroy(call, GRAPHS, real, handle)
#define destroy_exec(call, real, handle) destroy(call, EXECS, real, handle)

/* HANDLE is a new graph. If an older graph is listed under HANDLE, its end was not seen: a capture
 * that fails destroys its graph and does not return the handle. */
static void begun(CUgraph handle)
{
	settle(GRAPHS, take(GRAPHS, handle), true);
}

static CUresult graph_made(struct call *call, const CUgraph *handle, CUresult r)
{
	if (r != CUDA_SUCCESS || !handle)
		return r;
	if (any_listed())
		begun(*handle);
	cuda_record_object(call, (uint64_t)(uintptr_t)*handle, 1, -1);
	return r;
}

/* CALL made CHILD a part of PARENT. So CHILD ends, and its nodes become nodes of PARENT. */
static void move_graph(const struct call *call, CUgraph parent, CUgraph child)
{
	struct call ending = { &hooks[HOOK_cuGraphDestroy], call->caller };
	struct graph *from = take(GRAPHS, child);
	struct freeing freeing;

	cuda_object_ending(&ending, (uint64_t)(uintptr_t)child, 1, &freeing);
	cuda_object_ended(&ending, 0, &freeing, CUDA_SUCCESS);

	for (struct node *node = from ? from->nodes : NULL; node; node = node->hh.next)
		node_insert(parent, &node->act);
	settle(GRAPHS, from, true);
}

/* ---- capture ---- */

/* Returns the graph that STREAM is captured into, or NULL. The query is permitted during capture
 * from any thread and in each mode (seen on an H200). */
static CUgraph captured_graph(const struct hook *hook, CUstream stream)
{
	bool own = cuda_is_per_thread(hook);
	used_cuStreamGetCaptureInfo_v2 *v2 = own ? CUDA_USED(cuStreamGetCaptureInfo_v2_ptsz)
						 : CUDA_USED(cuStreamGetCaptureInfo_v2);
	used_cuStreamGetCaptureInfo_v3 *v3 = v2 ? NULL
					     : own ? CUDA_USED(cuStreamGetCaptureInfo_v3_ptsz)
						   : CUDA_USED(cuStreamGetCaptureInfo_v3);
	CUstreamCaptureStatus status = 0;
	CUgraph graph = NULL;
	CUresult r = CUDA_ERROR_NOT_FOUND;

	if (v2)
		r = v2(stream, &status, NULL, &graph, NULL, NULL);
	else if (v3)
		r = v3(stream, &status, NULL, &graph, NULL, NULL, NULL);
	return r == CUDA_SUCCESS && status == 1 ? graph : NULL; /* 1: active */
}

bool cuda_graph_captured(struct call *call, CUstream stream, uint64_t address, uint64_t bytes)
{
	bool captured = cuda_is_captured(call->hook, stream);

	if (captured)
		add_alloc(call, captured_graph(call->hook, stream), address, bytes, -1);
	return captured;
}

bool cuda_graph_captured_free(struct call *call, CUstream stream, uint64_t address)
{
	bool captured = cuda_is_captured(call->hook, stream);

	if (captured)
		add_free(captured_graph(call->hook, stream), address);
	return captured;
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

#define create_graph(call, real, graph, flags)                                              \
	graph_made(call, graph, DRIVER(cuGraphCreate, real)(graph, flags))
#define clone_graph(call, real, clone, original)                                            \
	graph_made(call, clone, DRIVER(cuGraphClone, real)(clone, original))

/* Returns true if GPULEAK_FAIL_AT refuses this call. A limit on bytes cannot: a node takes no
 * memory yet. */
static bool node_refused(struct call *call, CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
	if (!params || !LIMITS_REFUSE(call, LIMITS_NO_DEVICE, 0))
		return false;
	params->dptr = 0;
	return true;
}

static CUresult add_alloc_node(struct call *call, void *real, CUgraphNode *node, CUgraph graph,
			       const CUgraphNode *dependencies, size_t count,
			       CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
	CUresult r;

	if (node_refused(call, params))
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = DRIVER(cuGraphAddMemAllocNode, real)(node, graph, dependencies, count, params);
	if (r == CUDA_SUCCESS && params)
		add_alloc(call, graph, params->dptr, params->bytesize, device_of(params));
	return cuda_note_refusal(call, r, LIMITS_CURRENT, params ? params->bytesize : 0);
}

static CUresult add_free_node(NO_CALL, void *real, CUgraphNode *node, CUgraph graph,
			      const CUgraphNode *dependencies, size_t count, CUdeviceptr address)
{
	CUresult r = DRIVER(cuGraphAddMemFreeNode, real)(node, graph, dependencies, count,
							    address);

	if (r == CUDA_SUCCESS)
		add_free(graph, address);
	return r;
}

static CUresult added(struct call *call, CUgraph graph, const CUgraphNodeParams *params, CUresult r)
{
	bool allocates = params && params->type == NODE_MEM_ALLOC;

	if (r != CUDA_SUCCESS || !params)
		return cuda_note_refusal(call, r, LIMITS_CURRENT,
					 allocates ? params->alloc.bytesize : 0);
	if (allocates)
		add_alloc(call, graph, params->alloc.dptr, params->alloc.bytesize,
			  device_of(&params->alloc));
	else if (params->type == NODE_MEM_FREE)
		add_free(graph, params->free.dptr);
	else if (params->type == NODE_GRAPH && params->graph.ownership == OWNERSHIP_MOVE)
		move_graph(call, graph, params->graph.graph);
	return r;
}

/* The result of DRIVER_CALL, after the guard has looked at the ranges of PARAMS. */
#define CHECKED_NODE(call_, params, driver_call)                                            \
	({                                                                                  \
		struct copy_call copying = { call_, NULL, true };                           \
		uint32_t ref = guard_has(GUARD_COPIES) ? copies_check_node(copying, params) : 0; \
		CUresult result = (driver_call);                                            \
		if (ref)                                                                    \
			guard_answered(ref, (int)result);                                   \
		result;                                                                     \
	})
#define ADD_ANY_NODE(call, graph, params, driver_call)                                      \
	((params) && (params)->type == NODE_MEM_ALLOC && node_refused(call, &(params)->alloc) \
		 ? CUDA_ERROR_OUT_OF_MEMORY                                                 \
		 : added(call, graph, params, CHECKED_NODE(call, params, driver_call)))
#define add_any_node(call, real, node, graph, dependencies, count, params)                  \
	ADD_ANY_NODE(call, graph, params,                                                   \
		     DRIVER(cuGraphAddNode, real)(node, graph, dependencies, count, params))
#define add_any_node_v2(call, real, node, graph, dependencies, edges, count, params)        \
	ADD_ANY_NODE(call, graph, params,                                                   \
		     DRIVER(cuGraphAddNode_v2, real)(node, graph, dependencies, edges, count, \
							params))

/* ---- executable graphs ---- */

/* Locking: needs recorder->graphs->lock. Copies the present nodes of GRAPH into a new executable
 * graph. */
static struct graph *make_exec(struct recorder *recorder, const struct graph *graph)
{
	struct graph *exec = arena_take(&recorder->arena, sizeof(*exec));
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

/* The executable graph HANDLE now does what the graph OF does. FLAGS NULL: an update, which keeps
 * the flags of the instantiation. */
static void instantiated(CUgraphExec handle, CUgraph of, const unsigned long long *flags)
{
	ENTER_PART(graphs, any_listed() && handle);
	struct graph *exec, *graph;
	bool frees_at_launch;

	if (!recorder)
		return;
	exec = find(recorder, EXECS, handle);
	frees_at_launch = flags ? *flags & AUTO_FREE_ON_LAUNCH : exec && exec->frees_at_launch;
	if (exec)
		drop(recorder, EXECS, exec);
	graph = find(recorder, GRAPHS, of);
	exec = graph ? make_exec(recorder, graph) : NULL;
	if (!exec)
		return;
	exec->handle = (uint64_t)(uintptr_t)handle;
	exec->frees_at_launch = frees_at_launch;
	if (!list_add(recorder, EXECS, exec))
		free_graph(recorder, exec);
}

/* A graph with DEVICE_LAUNCH may be launched by a kernel, which calls no wrapper. */
static CUresult instantiated_if(struct call *call, CUgraphExec *exec, CUgraph graph,
				unsigned long long flags, struct driver_growth *growth, CUresult r)
{
	driver_growth_end(growth);
	if (flags & UPLOAD)
		submits_note();
	if (flags & DEVICE_LAUNCH)
		submits_unknown();
	if (r == CUDA_SUCCESS && exec) {
		instantiated(*exec, graph, &flags);
		driver_cost_record(call, growth->device, growth, 0);
		cuda_record_object(call, (uint64_t)(uintptr_t)*exec, 1, -1);
	}
	return r;
}

static CUresult updated_if(CUgraphExec exec, CUgraph graph, CUresult r)
{
	if (r == CUDA_SUCCESS)
		instantiated(exec, graph, NULL);
	return r;
}

#define update_exec(call, real, exec, graph, error, result)                                 \
	updated_if(exec, graph, DRIVER(cuGraphExecUpdate, real)(exec, graph, error, result))
#define update_exec_v2(call, real, exec, graph, info)                                       \
	updated_if(exec, graph, DRIVER(cuGraphExecUpdate_v2, real)(exec, graph, info))

/* DRIVER_CALL instantiates GRAPH with FLAGS. If the driver is out of memory, the pool returns some
 * and the call is repeated. */
#define INSTANTIATE(call, exec, graph, flags, driver_call)                                  \
	({                                                                                  \
		struct driver_growth growth;                                                \
		driver_growth_begin(&growth, API_CUDA, -1);                                 \
		instantiated_if(call, exec, graph, flags, &growth,                          \
				cuda_note_refusal(call, POOL_TRY(driver_call, LIMITS_CURRENT), \
						  LIMITS_CURRENT, 0));                      \
	})
#define instantiate(call, real, exec, graph, error, log, size)                              \
	INSTANTIATE(call, exec, graph, 0,                                                   \
		    DRIVER(cuGraphInstantiate, real)(exec, graph, error, log, size))
#define instantiate_with_flags(call, real, exec, graph, flags)                              \
	INSTANTIATE(call, exec, graph, flags,                                               \
		    DRIVER(cuGraphInstantiateWithFlags, real)(exec, graph, flags))
#define instantiate_with_params(call, real, exec, graph, params)                            \
	INSTANTIATE(call, exec, graph, params ? params->flags : 0,                          \
		    DRIVER(cuGraphInstantiateWithParams, real)(exec, graph, params))

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

static bool copy_exec(struct recorder *recorder, const struct graph *exec, struct launch *ret)
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
	ENTER_PART(graphs, true);

	return recorder && copy_exec(recorder, find(recorder, EXECS, handle), ret);
}

static void end_launch(struct launch *launch)
{
	LEAVE_AT_END struct recorder *recorder = recorder_enter();

	if (recorder && recorder == launch->recorder)
		arena_give(&recorder->arena, launch->steps, launch->count * sizeof(*launch->steps));
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

/* The launch failed or was captured, so nothing was allocated or freed. If it failed because a free
 * node's address is not allocated, that is recorded as an invalid free. */
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
static bool launch_limited(struct call *call, const struct launch *launch, CUstream stream)
{
	struct call from = { NULL, call->caller, SPACE_MEMORY };
	struct launch_memory memory;

	if (!limits_on() || cuda_is_captured(call->hook, stream))
		return false;
	memory = memory_of(launch);
	from.hook = (struct hook *)memory.hook;
	return from.hook && limits_exceed(&from, memory.device, memory.bytes);
}

/* Calls the driver, unless a limit refuses the launch. */
static CUresult launch_within_limit(struct call *call, void *real, const struct launch *launch,
				    CUgraphExec exec, CUstream stream)
{
	CUresult r;

	if (launch_limited(call, launch, stream))
		return CUDA_ERROR_OUT_OF_MEMORY;
	CUDA_CALL_TWICE(r, DRIVER(cuGraphLaunch, real)(exec, stream), LIMITS_CURRENT);
	if (r == CUDA_ERROR_OUT_OF_MEMORY)
		limits_record_refusal(call, LIMITS_CURRENT, memory_of(launch).bytes);
	return r;
}

static CUresult launch_listed(struct call *call, void *real, CUgraphExec exec, CUstream stream)
{
	struct launch launch;
	CUresult r;

	if (!any_listed() || !find_launch(exec, &launch))
		return DRIVER(cuGraphLaunch, real)(exec, stream);
	launching(call, &launch);
	r = launch_within_limit(call, real, &launch, exec, stream);
	/* A captured launch becomes a node of another graph: it allocates nothing now. */
	if (r == CUDA_SUCCESS && !cuda_is_captured(call->hook, stream))
		launched(call, &launch);
	else
		not_launched(call, &launch, r);
	limits_done();
	end_launch(&launch);
	return r;
}

static CUresult launch(struct call *call, void *real, CUgraphExec exec, CUstream stream)
{
	CUresult r = launch_listed(call, real, exec, stream);

	submits_note();
	return r;
}

/* For the guard, which does not know the parameters of a graph's kernels. */
static CUresult launch_guarded(struct call *call, void *real, CUgraphExec exec, CUstream stream)
{
	struct guarded_launch unknown;
	bool noted = launches_look(&unknown, NULL, stream, NULL, NULL);
	CUresult r = launch(call, real, exec, stream);

	if (r == CUDA_SUCCESS && noted)
		r = launches_note(call, r, &unknown, NULL, stream);
	if (r != CUDA_SUCCESS)
		guard_failed(call, r);
	return r;
}

#define HAND CUDA_HAND
#define ROWS_OF "interpose/cuda/cuda_graphs.def"
#include "interpose/dispatch/hooks.def"
