/* SPDX-License-Identifier: MIT
 *
 * Executable graphs: how they are instantiated, updated and launched, and which memory a launch
 * allocates and frees. With STANDIN_ASYNC a launch also runs captured work, in the order of its
 * capture. Owns the executable graphs.
 */
#include <stdlib.h>

#include "standin/driver/graph.h"

enum { AUTO_FREE_ON_LAUNCH = 1, DEVICE_LAUNCH = 4 };

/* the handle of a destroyed one is reused at once */
static struct CUgraphExec_st *execs, *spare_execs;

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
		exec->device = memory_context() ? memory_context()->device : 0;
		driver_takes(exec->device, driver_cost(COST_GRAPH));
		return exec;
	}
	free(memory);
	free(exec);
	return NULL;
}

static void drop_exec(CUgraphExec exec)
{
	driver_takes(exec->device, -driver_cost(COST_GRAPH));
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
		memory_let_go(exec->memory[i]);
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

/* From now on EXEC allocates and frees the memory of the nodes of GRAPH. Memory that it allocated
 * before stays allocated. */
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
		memory_let_go(exec->memory[i]);
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

/* Stores no reason of a failure. */
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

/* Fails without an effect if memory that EXEC allocates is allocated, or if memory that it frees is
 * not. With AUTO_FREE_ON_LAUNCH the former is allowed. */
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

/* Puts the captured work of EXEC into a queue, or into the graph of a capture. */
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
