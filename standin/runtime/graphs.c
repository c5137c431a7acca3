/* SPDX-License-Identifier: MIT
 *
 * Graphs, as far as the driver without a GPU has them: memory, children, captured work.
 */
#include "standin/runtime/runtime.h"

CUDART(cudaGraphCreate)(CUgraph *ret, unsigned int flags)
{
	cudaError_t r = enter();

	return done(r ? r : driver.cuGraphCreate(ret, flags));
}

CUDART(cudaGraphDestroy)(CUgraph graph)
{
	cudaError_t r = enter();

	return done(r ? r : driver.cuGraphDestroy(graph));
}

CUDART(cudaGraphClone)(CUgraph *ret, CUgraph graph)
{
	cudaError_t r = enter();

	return done(r ? r : driver.cuGraphClone(ret, graph));
}

INLINED cudaError_t instantiate(CUgraphExec *ret, CUgraph graph, unsigned long long flags)
{
	cudaError_t r = enter();

	return done(r ? r : driver.cuGraphInstantiateWithFlags(ret, graph, flags));
}

CUDART(cudaGraphInstantiate)(CUgraphExec *ret, CUgraph graph, unsigned long long flags)
{
	return instantiate(ret, graph, flags);
}

CUDART(cudaGraphInstantiateWithFlags)(CUgraphExec *ret, CUgraph graph, unsigned long long flags)
{
	return instantiate(ret, graph, flags);
}

CUDART_STREAM(cudaGraphLaunch, (CUgraphExec exec, CUstream stream), (exec, stream))
{
	cudaError_t r = enter();

	return done(r ? r : driver.cuGraphLaunch(exec, stream));
}

CUDART_STREAM(cudaGraphUpload, (CUgraphExec exec, CUstream stream), (exec, stream))
{
	(void)stream;
	return done(exec ? enter() : cudaErrorInvalidValue);
}

CUDART(cudaGraphExecDestroy)(CUgraphExec exec)
{
	cudaError_t r = enter();

	return done(r ? r : driver.cuGraphExecDestroy(exec));
}

CUDART(cudaGraphAddEmptyNode)
(CUgraphNode *ret, CUgraph graph, const CUgraphNode *after, size_t count)
{
	cudaError_t r = enter();

	return done(r ? r : driver.cuGraphAddEmptyNode(ret, graph, after, count));
}

CUDART(cudaGraphAddChildGraphNode)
(CUgraphNode *ret, CUgraph graph, const CUgraphNode *after, size_t count, CUgraph child)
{
	cudaError_t r = enter();

	return done(r ? r : driver.cuGraphAddChildGraphNode(ret, graph, after, count, child));
}

CUDART(cudaGraphAddMemAllocNode)
(CUgraphNode *ret, CUgraph graph, const CUgraphNode *after, size_t count, void *parameters)
{
	cudaError_t r = enter();

	return done(r ? r : driver.cuGraphAddMemAllocNode(ret, graph, after, count, parameters));
}

CUDART(cudaGraphAddMemFreeNode)
(CUgraphNode *ret, CUgraph graph, const CUgraphNode *after, size_t count, void *address)
{
	cudaError_t r = enter();

	return done(r ? r : driver.cuGraphAddMemFreeNode(ret, graph, after, count,
							 (uintptr_t)address));
}
