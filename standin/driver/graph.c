/* SPDX-License-Identifier: MIT
 *
 * Graphs with nodes that allocate and free memory, and the calls that are refused for a graph with
 * such nodes. Owns graphs, nodes and the memory of nodes. The heap only provides their addresses.
 * With STANDIN_ASYNC a node may also be captured work. graph_exec.c has the executable graphs.
 */
#include <stdlib.h>

#include "standin/driver/graph.h"

pthread_mutex_t graph_lock = PTHREAD_MUTEX_INITIALIZER;
/* the handle of a destroyed graph is reused at once */
static struct CUgraph_st *graphs, *spare_graphs;
static struct memory *memories;
static _Atomic int memory_count;

bool is_graph(CUgraph graph)
{
	struct CUgraph_st *g = graphs;

	while (g && g != graph)
		g = g->next;
	return graph && g;
}

bool has_memory(const struct CUgraph_st *graph)
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

void memory_let_go(struct memory *memory)
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
		memory_let_go(m);
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
		memory_let_go(m);
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

/* Copies the captured work of GRAPH to OUT, in the order of its capture. Returns the number of
 * pieces of work. OUT may be NULL. */
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

CUresult copy_works(struct work **out, unsigned int *count, const struct CUgraph_st *graph)
{
	*count = works_of(graph, NULL);
	*out = *count ? malloc(*count * sizeof(**out)) : NULL;
	if (*count && !*out)
		return CUDA_ERROR_OUT_OF_MEMORY;
	works_of(graph, *out);
	return CUDA_SUCCESS;
}

CUresult add_works(CUgraph graph, const struct work *works, unsigned int count)
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

/* Clones only captured work: the stand-in does not know what other nodes do. */
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

/* Memory can be freed only once in a graph. If its own graph frees it, no other graph can, and the
 * reverse. */
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

/* Adds CHILD as a copy, or moves it. A child with memory cannot be copied. */
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

/* Stores in OUT, which may be NULL, the memory of each node of TYPE in GRAPH and its children.
 * Returns the number of these nodes. */
unsigned int collect(const struct CUgraph_st *graph, int type, struct memory **out)
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

NOTHING(cuDeviceGraphMemTrim)
