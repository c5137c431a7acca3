/* SPDX-License-Identifier: MIT
 *
 * Graphs, as far as they hold memory: nodes that allocate and free, what a launch makes of
 * them, and what may not be done to a graph with such nodes. Owns graphs, nodes, executable
 * graphs and the memory of nodes; of the heap it takes addresses alone. With STANDIN_ASYNC a node
 * may also be captured work: a launch runs it in the order of its capture. Nothing else runs.
 */
#include <pthread.h>
#include <stdlib.h>

#include "async.h"

enum { NODE_EMPTY = 5, NODE_GRAPH = 4, NODE_MEM_ALLOC = 10, NODE_MEM_FREE = 11,
       NODE_WORK = -1 };
enum { AUTO_FREE_ON_LAUNCH = 1, DEVICE_LAUNCH = 4 };

struct CUgraphNode_st {
	struct CUgraphNode_st *next;
	int type;
	struct memory *memory; /* of a node that allocates or frees */
	struct work *work;     /* that was captured */
};

struct CUgraph_st {
	struct CUgraph_st *next;
	struct CUgraph_st *parent; /* it moved into */
	struct CUgraphNode_st *nodes;
	struct CUgraphExec_st *exec; /* that exists of it, if it has memory */
};

/* What a node allocates: an address for good, memory while it is live. */
struct memory {
	struct memory *next;
	CUdeviceptr address;
	size_t bytes;
	struct CUgraph_st *graph; /* NULL: that is gone */
	struct CUgraph_st *freed_by; /* the last graph with a node that frees it */
	unsigned int held; /* by executable graphs and nodes that free it */
	bool live;
};

struct CUgraphExec_st {
	struct CUgraphExec_st *next;
	struct CUgraph_st *graph; /* NULL: that is gone */
	bool frees_at_launch;
	unsigned int allocates, frees;
	struct memory **memory; /* those, then these */
	struct work *works;	/* in their order, each a copy */
	unsigned int work_count;
};

static pthread_mutex_t graph_lock = PTHREAD_MUTEX_INITIALIZER;
static struct CUgraph_st *graphs, *spare_graphs; /* a handle is given again at once */
static struct CUgraphExec_st *execs, *spare_execs;
static struct memory *memories;
static _Atomic int memory_count;

static bool is_graph(CUgraph graph)
{
	struct CUgraph_st *g = graphs;

	while (g && g != graph)
		g = g->next;
	return graph && g;
}

static bool has_memory(const struct CUgraph_st *graph)
{
	for (const struct CUgraphNode_st *n = graph->nodes; n; n = n->next)
		if (n->memory)
			return true;
	for (const struct CUgraph_st *g = graphs; g; g = g->next)
		if (g->parent == graph && has_memory(g))
			return true;
	return false;
}

/* ---- memory ---- */

static void let_go(struct memory *memory)
{
	struct memory **link = &memories;

	if (memory->live || memory->graph || memory->held)
		return;
	while (*link != memory)
		link = &(*link)->next;
	*link = memory->next;
	heap_free(memory->address, FREE_BY_OWNER);
	free(memory);
	atomic_fetch_sub(&memory_count, 1);
}

static struct memory *find_memory(CUdeviceptr address)
{
	struct memory *m = memories;

	while (m && m->address != address)
		m = m->next;
	return m;
}

bool graph_free(CUdeviceptr address, CUresult *r)
{
	struct memory *m;

	if (likely(!atomic_load(&memory_count)))
		return false;
	pthread_mutex_lock(&graph_lock);
	m = find_memory(address);
	if (m) {
		*r = m->live ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
		m->live = false;
		let_go(m);
	}
	pthread_mutex_unlock(&graph_lock);
	return m;
}

static CUresult new_memory(CUgraph graph, size_t bytes, int device, struct memory **out)
{
	struct block b = { .bytes = bytes, .kind = BLOCK_GRAPH, .device = device };
	struct memory *m;
	CUresult r;

	if (!bytes || bad_device(device))
		return CUDA_ERROR_INVALID_VALUE;
	m = calloc(1, sizeof(*m));
	if (!m)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = heap_take(&b);
	if (r) {
		free(m);
		return r;
	}
	m->address = b.address;
	m->bytes = bytes;
	m->graph = graph;
	m->next = memories;
	memories = m;
	atomic_fetch_add(&memory_count, 1);
	*out = m;
	return CUDA_SUCCESS;
}

/* ---- graphs ---- */

static CUgraph new_graph(void)
{
	CUgraph graph = spare_graphs;

	if (graph)
		spare_graphs = graph->next;
	else
		graph = malloc(sizeof(*graph));
	if (graph) {
		*graph = (struct CUgraph_st){ .next = graphs };
		graphs = graph;
	}
	return graph;
}

CUgraph graph_begin(void)
{
	CUgraph graph;

	pthread_mutex_lock(&graph_lock);
	graph = new_graph();
	pthread_mutex_unlock(&graph_lock);
	return graph;
}

static void destroy_node(struct CUgraphNode_st *node)
{
	struct memory *m = node->memory;

	if (m && node->type == NODE_MEM_ALLOC)
		m->graph = NULL;
	else if (m)
		m->held--;
	if (m)
		let_go(m);
	free(node->work);
	free(node);
}

static void destroy_graph(CUgraph graph)
{
	struct CUgraph_st **link = &graphs;
	struct CUgraphNode_st *node;

	while (*link != graph)
		link = &(*link)->next;
	*link = graph->next;
	for (struct CUgraph_st *g = graphs, *next; g; g = next) {
		next = g->next;
		if (g->parent == graph) {
			destroy_graph(g);
			next = graphs;
		}
	}
	if (graph->exec)
		graph->exec->graph = NULL;
	while ((node = graph->nodes)) {
		graph->nodes = node->next;
		destroy_node(node);
	}
	graph->next = spare_graphs;
	spare_graphs = graph;
}

void graph_abandon(CUgraph graph)
{
	pthread_mutex_lock(&graph_lock);
	if (is_graph(graph))
		destroy_graph(graph);
	pthread_mutex_unlock(&graph_lock);
}

bool graph_is(CUgraph graph)
{
	bool is;

	pthread_mutex_lock(&graph_lock);
	is = is_graph(graph);
	pthread_mutex_unlock(&graph_lock);
	return is;
}

STANDIN(cuGraphCreate)(CUgraph *phGraph, unsigned int flags)
{
	CUresult r = gate("cuGraphCreate");
	CUgraph made;

	if (r)
		return r;
	if (!phGraph || flags)
		return CUDA_ERROR_INVALID_VALUE;
	made = graph_begin();
	if (made)
		*phGraph = made;
	return made ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult destroy(CUgraph graph)
{
	if (!is_graph(graph) || graph->parent)
		return CUDA_ERROR_INVALID_VALUE;
	destroy_graph(graph);
	return CUDA_SUCCESS;
}

STANDIN(cuGraphDestroy)(CUgraph hGraph)
{
	CUresult r = gate("cuGraphDestroy");

	if (!r) {
		pthread_mutex_lock(&graph_lock);
		r = destroy(hGraph);
		pthread_mutex_unlock(&graph_lock);
	}
	return r;
}

static CUresult add_node(CUgraph graph, int type, struct memory *memory, CUgraphNode *out);

static CUresult add_work(CUgraph graph, const struct work *work)
{
	struct work *copy = malloc(sizeof(*copy));
	CUgraphNode node;

	if (!copy || add_node(graph, NODE_WORK, NULL, &node)) {
		free(copy);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*copy = *work;
	node->work = copy;
	return CUDA_SUCCESS;
}

/* A graph's nodes in the order in which they were made. */
static unsigned int works_of(const struct CUgraph_st *graph, struct work *out)
{
	unsigned int count = 0, at;

	for (const struct CUgraphNode_st *n = graph->nodes; n; n = n->next)
		count += n->work != NULL;
	at = count;
	for (const struct CUgraphNode_st *n = graph->nodes; out && n; n = n->next)
		if (n->work)
			out[--at] = *n->work;
	return count;
}

static CUresult copy_works(struct work **out, unsigned int *count, const struct CUgraph_st *graph)
{
	*count = works_of(graph, NULL);
	*out = *count ? malloc(*count * sizeof(**out)) : NULL;
	if (*count && !*out)
		return CUDA_ERROR_OUT_OF_MEMORY;
	works_of(graph, *out);
	return CUDA_SUCCESS;
}

static CUresult add_works(CUgraph graph, const struct work *works, unsigned int count)
{
	CUresult r = CUDA_SUCCESS;

	for (unsigned int i = 0; !r && i < count; i++)
		r = add_work(graph, &works[i]);
	return r;
}

CUresult graph_capture_work(CUgraph graph, const struct work *work)
{
	CUresult r = ERROR_CAPTURE_INVALIDATED;

	pthread_mutex_lock(&graph_lock);
	if (is_graph(graph))
		r = add_work(graph, work);
	pthread_mutex_unlock(&graph_lock);
	return r;
}

static CUgraph clone_of(CUgraph original)
{
	struct work *works;
	unsigned int count;
	CUgraph made = copy_works(&works, &count, original) ? NULL : new_graph();

	if (made && add_works(made, works, count)) {
		destroy_graph(made);
		made = NULL;
	}
	free(works);
	return made;
}

/* Of captured work alone: what other nodes do is not known here. */
STANDIN(cuGraphClone)(CUgraph *phGraphClone, CUgraph originalGraph)
{
	CUresult r = gate("cuGraphClone");
	CUgraph made = NULL;

	if (r)
		return r;
	pthread_mutex_lock(&graph_lock);
	if (!phGraphClone || !is_graph(originalGraph))
		r = CUDA_ERROR_INVALID_VALUE;
	else if (has_memory(originalGraph))
		r = CUDA_ERROR_NOT_SUPPORTED;
	else
		made = clone_of(originalGraph);
	pthread_mutex_unlock(&graph_lock);
	if (made)
		*phGraphClone = made;
	return r || made ? r : CUDA_ERROR_OUT_OF_MEMORY;
}

/* ---- nodes ---- */

static CUresult add_node(CUgraph graph, int type, struct memory *memory, CUgraphNode *out)
{
	struct CUgraphNode_st *node = calloc(1, sizeof(*node));

	if (!node)
		return CUDA_ERROR_OUT_OF_MEMORY;
	node->type = type;
	node->memory = memory;
	node->next = graph->nodes;
	graph->nodes = node;
	if (out)
		*out = node;
	return CUDA_SUCCESS;
}

static CUresult add_alloc(CUgraph graph, size_t bytes, int device, CUdeviceptr *address,
			  CUgraphNode *out)
{
	struct memory *memory;
	CUresult r = is_graph(graph) && !graph->parent ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;

	if (!r)
		r = new_memory(graph, bytes, device, &memory);
	if (!r)
		r = add_node(graph, NODE_MEM_ALLOC, memory, out);
	if (!r)
		*address = memory->address;
	return r;
}

/* Once in a graph, and by its own graph or by others. */
static CUresult add_free(CUgraph graph, CUdeviceptr address, CUgraphNode *out)
{
	struct memory *m = find_memory(address);
	CUresult r;

	if (!is_graph(graph) || graph->parent || !m || m->freed_by == graph ||
	    (m->freed_by && m->graph && (m->freed_by == m->graph) != (graph == m->graph)))
		return CUDA_ERROR_INVALID_VALUE;
	r = add_node(graph, NODE_MEM_FREE, m, out);
	if (!r) {
		m->freed_by = graph;
		m->held++;
	}
	return r;
}

CUresult graph_capture_alloc(CUgraph graph, size_t bytes, int device, CUdeviceptr *address)
{
	CUresult r;

	pthread_mutex_lock(&graph_lock);
	r = add_alloc(graph, bytes, device, address, NULL);
	pthread_mutex_unlock(&graph_lock);
	return r;
}

CUresult graph_capture_free(CUgraph graph, CUdeviceptr address)
{
	CUresult r;

	pthread_mutex_lock(&graph_lock);
	r = add_free(graph, address, NULL);
	pthread_mutex_unlock(&graph_lock);
	return r;
}

/* By value or moved; a child with memory can't be copied. */
static CUresult add_child(CUgraph graph, CUgraph child, bool move, CUgraphNode *out)
{
	CUresult r;

	if (!is_graph(graph) || !is_graph(child) || child == graph || child->parent || child->exec)
		return CUDA_ERROR_INVALID_VALUE;
	if (!move && has_memory(child))
		return CUDA_ERROR_NOT_SUPPORTED;
	r = add_node(graph, NODE_GRAPH, NULL, out);
	if (!r && move)
		child->parent = graph;
	return r;
}

static CUresult add_any(CUgraph graph, CUgraphNodeParams *params, CUgraphNode *out)
{
	if (!is_graph(graph) || !params || !out)
		return CUDA_ERROR_INVALID_VALUE;
	switch (params->type) {
	case NODE_MEM_ALLOC:
		return params->alloc.poolProps.locationType != LOCATION_DEVICE ||
				       params->alloc.poolProps.allocType != 1 ? /* PINNED */
			       CUDA_ERROR_INVALID_VALUE :
			       add_alloc(graph, params->alloc.bytesize,
					 params->alloc.poolProps.locationId, &params->alloc.dptr,
					 out);
	case NODE_MEM_FREE:
		return add_free(graph, params->free.dptr, out);
	case NODE_GRAPH:
		return add_child(graph, params->graph.graph, params->graph.ownership == 1, out);
	default:
		return add_node(graph, params->type, NULL, out);
	}
}

static CUresult add_locked(const char *name, CUgraph graph, CUgraphNodeParams *params,
			   CUgraphNode *out)
{
	CUresult r = gate(name);

	if (!r) {
		pthread_mutex_lock(&graph_lock);
		r = add_any(graph, params, out);
		pthread_mutex_unlock(&graph_lock);
	}
	return r;
}

STANDIN(cuGraphAddMemAllocNode)
(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
 size_t numDependencies, CUDA_MEM_ALLOC_NODE_PARAMS *nodeParams)
{
	CUgraphNodeParams params = { .type = NODE_MEM_ALLOC };
	CUresult r;

	(void)dependencies;
	(void)numDependencies;
	if (nodeParams)
		params.alloc = *nodeParams;
	r = add_locked("cuGraphAddMemAllocNode", hGraph, nodeParams ? &params : NULL, phGraphNode);
	if (!r)
		nodeParams->dptr = params.alloc.dptr;
	return r;
}

STANDIN(cuGraphAddMemFreeNode)
(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
 size_t numDependencies, CUdeviceptr dptr)
{
	CUgraphNodeParams params = { .type = NODE_MEM_FREE, .free = { dptr } };

	(void)dependencies;
	(void)numDependencies;
	return add_locked("cuGraphAddMemFreeNode", hGraph, &params, phGraphNode);
}

STANDIN(cuGraphAddEmptyNode)
(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t numDependencies)
{
	CUgraphNodeParams params = { .type = NODE_EMPTY };

	(void)dependencies;
	(void)numDependencies;
	return add_locked("cuGraphAddEmptyNode", hGraph, &params, phGraphNode);
}

STANDIN(cuGraphAddChildGraphNode)
(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
 size_t numDependencies, CUgraph childGraph)
{
	CUgraphNodeParams params = { .type = NODE_GRAPH, .graph = { childGraph, 0 } };

	(void)dependencies;
	(void)numDependencies;
	return add_locked("cuGraphAddChildGraphNode", hGraph, &params, phGraphNode);
}

STANDIN(cuGraphAddNode)
(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
 size_t numDependencies, CUgraphNodeParams *nodeParams)
{
	(void)dependencies;
	(void)numDependencies;
	return add_locked("cuGraphAddNode", hGraph, nodeParams, phGraphNode);
}

STANDIN(cuGraphAddNode_v2)
(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
 const CUgraphEdgeData *dependencyData, size_t numDependencies, CUgraphNodeParams *nodeParams)
{
	(void)dependencies;
	(void)dependencyData;
	(void)numDependencies;
	return add_locked("cuGraphAddNode_v2", hGraph, nodeParams, phGraphNode);
}

static CUresult destroy_one(CUgraphNode node)
{
	for (struct CUgraph_st *g = graphs; g; g = g->next)
		for (struct CUgraphNode_st **link = &g->nodes; *link; link = &(*link)->next) {
			if (*link != node)
				continue;
			if (has_memory(g))
				return CUDA_ERROR_NOT_SUPPORTED;
			*link = node->next;
			destroy_node(node);
			return CUDA_SUCCESS;
		}
	return CUDA_ERROR_INVALID_VALUE;
}

STANDIN(cuGraphDestroyNode)(CUgraphNode hNode)
{
	CUresult r = gate("cuGraphDestroyNode");

	if (!r) {
		pthread_mutex_lock(&graph_lock);
		r = destroy_one(hNode);
		pthread_mutex_unlock(&graph_lock);
	}
	return r;
}

/* ---- executable graphs ---- */

/* Calls with each node of memory in GRAPH and its children, of TYPE. */
static unsigned int collect(const struct CUgraph_st *graph, int type, struct memory **out)
{
	unsigned int count = 0;

	for (struct CUgraphNode_st *n = graph->nodes; n; n = n->next) {
		if (!n->memory || n->type != type)
			continue;
		if (out)
			out[count] = n->memory;
		count++;
	}
	for (struct CUgraph_st *g = graphs; g; g = g->next)
		if (g->parent == graph)
			count += collect(g, type, out ? out + count : NULL);
	return count;
}

static CUgraphExec new_exec(unsigned int nodes)
{
	struct memory **memory = calloc(nodes ? nodes : 1, sizeof(struct memory *));
	CUgraphExec exec = spare_execs;

	if (exec)
		spare_execs = exec->next;
	else
		exec = malloc(sizeof(*exec));
	if (exec && memory) {
		*exec = (struct CUgraphExec_st){ .memory = memory };
		return exec;
	}
	free(memory);
	free(exec);
	return NULL;
}

static void drop_exec(CUgraphExec exec)
{
	free(exec->works);
	free(exec->memory);
	exec->next = spare_execs;
	spare_execs = exec;
}

static CUresult instantiate(CUgraphExec *out, CUgraph graph, unsigned long long flags)
{
	unsigned int allocates, frees;
	CUgraphExec exec;

	if (!out || !is_graph(graph) || graph->parent || flags > 15 ||
	    (flags & AUTO_FREE_ON_LAUNCH && flags & DEVICE_LAUNCH))
		return CUDA_ERROR_INVALID_VALUE;
	if (has_memory(graph) && graph->exec)
		return CUDA_ERROR_NOT_SUPPORTED;
	allocates = collect(graph, NODE_MEM_ALLOC, NULL);
	frees = collect(graph, NODE_MEM_FREE, NULL);
	exec = new_exec(allocates + frees);
	if (!exec)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (copy_works(&exec->works, &exec->work_count, graph)) {
		drop_exec(exec);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	exec->allocates = collect(graph, NODE_MEM_ALLOC, exec->memory);
	exec->frees = collect(graph, NODE_MEM_FREE, exec->memory + allocates);
	for (unsigned int i = 0; i < allocates + frees; i++)
		exec->memory[i]->held++;
	exec->frees_at_launch = flags & AUTO_FREE_ON_LAUNCH;
	exec->next = execs;
	execs = exec;
	if (has_memory(graph)) {
		exec->graph = graph;
		graph->exec = exec;
	}
	*out = exec;
	return CUDA_SUCCESS;
}

static CUresult instantiate_locked(const char *name, CUgraphExec *out, CUgraph graph,
				   unsigned long long flags)
{
	CUresult r = gate(name);

	if (!r)
		r = context_usable(standin_thread.current);
	if (!r) {
		pthread_mutex_lock(&graph_lock);
		r = instantiate(out, graph, flags);
		pthread_mutex_unlock(&graph_lock);
	}
	return r;
}

STANDIN(cuGraphInstantiate)
(CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode, char *logBuffer,
 size_t bufferSize)
{
	(void)phErrorNode;
	(void)logBuffer;
	(void)bufferSize;
	return instantiate_locked("cuGraphInstantiate", phGraphExec, hGraph, 0);
}

STANDIN(cuGraphInstantiate_v2)
(CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode, char *logBuffer,
 size_t bufferSize)
{
	(void)phErrorNode;
	(void)logBuffer;
	(void)bufferSize;
	return instantiate_locked("cuGraphInstantiate_v2", phGraphExec, hGraph, 0);
}

STANDIN(cuGraphInstantiateWithFlags)
(CUgraphExec *phGraphExec, CUgraph hGraph, unsigned long long flags)
{
	return instantiate_locked("cuGraphInstantiateWithFlags", phGraphExec, hGraph, flags);
}

STANDIN(cuGraphInstantiateWithParams)
(CUgraphExec *phGraphExec, CUgraph hGraph, CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
	return instantiate_locked("cuGraphInstantiateWithParams",
				  instantiateParams ? phGraphExec : NULL, hGraph,
				  instantiateParams ? instantiateParams->flags : 0);
}

STANDIN(cuGraphInstantiateWithParams_ptsz)
(CUgraphExec *phGraphExec, CUgraph hGraph, CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
	return instantiate_locked("cuGraphInstantiateWithParams_ptsz",
				  instantiateParams ? phGraphExec : NULL, hGraph,
				  instantiateParams ? instantiateParams->flags : 0);
}

static struct CUgraphExec_st **find_exec(CUgraphExec exec)
{
	struct CUgraphExec_st **link = &execs;

	while (*link && *link != exec)
		link = &(*link)->next;
	return link;
}

static CUresult destroy_exec(CUgraphExec exec)
{
	struct CUgraphExec_st **link = find_exec(exec);

	if (!*link)
		return CUDA_ERROR_INVALID_VALUE;
	*link = exec->next;
	if (exec->graph)
		exec->graph->exec = NULL;
	for (unsigned int i = 0; i < exec->allocates + exec->frees; i++) {
		exec->memory[i]->held--;
		let_go(exec->memory[i]);
	}
	drop_exec(exec);
	return CUDA_SUCCESS;
}

STANDIN(cuGraphExecDestroy)(CUgraphExec hGraphExec)
{
	CUresult r = gate("cuGraphExecDestroy");

	if (!r) {
		pthread_mutex_lock(&graph_lock);
		r = destroy_exec(hGraphExec);
		pthread_mutex_unlock(&graph_lock);
	}
	return r;
}

/* Its nodes' memory is the new graph's from now on; what is outstanding of the old stays. */
static CUresult update(CUgraphExec exec, CUgraph graph)
{
	unsigned int allocates, frees, count;
	struct work *works;

	if (!*find_exec(exec) || !is_graph(graph))
		return CUDA_ERROR_INVALID_VALUE;
	allocates = collect(graph, NODE_MEM_ALLOC, NULL);
	frees = collect(graph, NODE_MEM_FREE, NULL);
	if (has_memory(graph) && graph->exec && graph->exec != exec)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (allocates != exec->allocates || frees != exec->frees)
		return ERROR_UPDATE_FAILURE;
	if (copy_works(&works, &count, graph))
		return CUDA_ERROR_OUT_OF_MEMORY;
	free(exec->works);
	exec->works = works;
	exec->work_count = count;
	for (unsigned int i = 0; i < allocates + frees; i++) {
		exec->memory[i]->held--;
		let_go(exec->memory[i]);
	}
	collect(graph, NODE_MEM_ALLOC, exec->memory);
	collect(graph, NODE_MEM_FREE, exec->memory + allocates);
	for (unsigned int i = 0; i < allocates + frees; i++)
		exec->memory[i]->held++;
	if (exec->graph)
		exec->graph->exec = NULL;
	exec->graph = has_memory(graph) ? graph : NULL;
	if (exec->graph)
		graph->exec = exec;
	return CUDA_SUCCESS;
}

static CUresult update_locked(const char *name, CUgraphExec exec, CUgraph graph)
{
	CUresult r = gate(name);

	if (!r) {
		pthread_mutex_lock(&graph_lock);
		r = update(exec, graph);
		pthread_mutex_unlock(&graph_lock);
	}
	return r;
}

/* No reason is given. */
STANDIN(cuGraphExecUpdate)
(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphNode *hErrorNode_out,
 CUgraphExecUpdateResult *updateResult_out)
{
	(void)hErrorNode_out;
	(void)updateResult_out;
	return update_locked("cuGraphExecUpdate", hGraphExec, hGraph);
}

STANDIN(cuGraphExecUpdate_v2)
(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphExecUpdateResultInfo *resultInfo)
{
	(void)resultInfo;
	return update_locked("cuGraphExecUpdate_v2", hGraphExec, hGraph);
}

static bool allocates(CUgraphExec exec, const struct memory *memory)
{
	for (unsigned int i = 0; i < exec->allocates; i++)
		if (exec->memory[i] == memory)
			return true;
	return false;
}

/* All or nothing: what it allocates must be free, what it frees must be live. */
static CUresult launch(CUgraphExec exec)
{
	struct memory **frees;

	if (!*find_exec(exec))
		return CUDA_ERROR_INVALID_VALUE;
	frees = exec->memory + exec->allocates;
	for (unsigned int i = 0; i < exec->allocates; i++)
		if (exec->memory[i]->live && !exec->frees_at_launch)
			return CUDA_ERROR_INVALID_VALUE;
	for (unsigned int i = 0; i < exec->frees; i++)
		if (!frees[i]->live && !allocates(exec, frees[i]))
			return CUDA_ERROR_INVALID_VALUE;
	for (unsigned int i = 0; i < exec->allocates; i++)
		exec->memory[i]->live = true;
	for (unsigned int i = 0; i < exec->frees; i++)
		frees[i]->live = false;
	return CUDA_SUCCESS;
}

/* Into a queue, or as nodes of a graph that is captured. */
static CUresult run_works(CUgraphExec exec, const struct target *t)
{
	CUresult r = CUDA_SUCCESS;

	if (t->graph)
		return add_works(t->graph, exec->works, exec->work_count);
	for (unsigned int i = 0; !r && i < exec->work_count; i++)
		r = async_submit(t->queue, &exec->works[i], NULL, NULL);
	return r;
}

static CUresult launch_locked(const char *name, CUgraphExec exec, CUstream stream,
			      bool per_thread)
{
	struct target t;
	bool capturing = false;
	CUresult r = gate(name);

	if (!r)
		r = context_usable(standin_thread.current);
	if (!r)
		r = stream_check(stream, &capturing);
	if (!r && !stream && !capturing)
		r = capture_check();
	if (unlikely(standin_async) && !r)
		r = stream_target(stream, per_thread, &t);
	if (r)
		return logged(name, (uintptr_t)exec, 0, r);
	pthread_mutex_lock(&graph_lock);
	if (!capturing)
		r = launch(exec);
	else if (!*find_exec(exec))
		r = CUDA_ERROR_INVALID_VALUE;
	else if (exec->allocates + exec->frees)
		r = CUDA_ERROR_NOT_SUPPORTED; /* a child with memory can't be copied */
	if (unlikely(standin_async) && !r)
		r = run_works(exec, &t);
	pthread_mutex_unlock(&graph_lock);
	return logged(name, (uintptr_t)exec, 0, r);
}

STANDIN(cuGraphLaunch)(CUgraphExec hGraphExec, CUstream hStream)
{
	return launch_locked("cuGraphLaunch", hGraphExec, hStream, false);
}

STANDIN(cuGraphLaunch_ptsz)(CUgraphExec hGraphExec, CUstream hStream)
{
	return launch_locked("cuGraphLaunch_ptsz", hGraphExec, hStream, true);
}
NOTHING(cuDeviceGraphMemTrim)
