/* SPDX-License-Identifier: MIT
 *
 * The self-test's cases on graphs with memory, attached and green contexts: what was seen of
 * them on an H200 (README.md says what was).
 */
#include <pthread.h>

#include "selftest.h"

CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode *nodes,
				     const CUgraphEdgeData *edges, size_t count, int mode);
CUresult cuGraphDestroyNode(CUgraphNode node);
CUresult cuGraphAddEmptyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *nodes,
			     size_t count);
CUresult cuDeviceGetDevResource(CUdevice device, void *resource, int type);
CUresult cuDevResourceGenerateDesc(CUdevResourceDesc *out, void *resources, unsigned int count);

enum { AUTO_FREE = 1 };

static CUgraph graph_of(size_t bytes, CUdeviceptr *address)
{
	CUDA_MEM_ALLOC_NODE_PARAMS params = { .bytesize = bytes };
	CUgraphNode node;
	CUgraph graph;

	params.poolProps.allocType = params.poolProps.locationType = 1;
	IS(cuGraphCreate(&graph, 0), 0);
	IS(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &params), 0);
	IS(params.dptr != 0, 1);
	*address = params.dptr;
	return graph;
}

void case_graphs(void)
{
	CUgraphExec exec, other;
	CUgraph graph, copy;
	CUgraphNode node;
	CUdeviceptr d;

	begin();
	graph = graph_of(3000, &d);
	IS(cuMemFree_v2(d), 1);
	IS(cuMemFreeAsync(d, NULL), 1);
	IS(cuGraphInstantiateWithFlags(&exec, graph, 0), 0);
	IS(cuGraphInstantiateWithFlags(&other, graph, 0), 801);
	IS(cuGraphClone(&copy, graph), 801);
	IS(cuGraphAddEmptyNode(&node, graph, NULL, 0), 0);
	IS(cuGraphDestroyNode(node), 801);
	IS(cuGraphLaunch(exec, NULL), 0);
	IS(cuGraphLaunch(exec, NULL), 1);
	IS(cuMemFree_v2(d), 0);
	IS(cuMemFree_v2(d), 1);
	IS(cuGraphLaunch(exec, NULL), 0);
	IS(cuMemFreeAsync(d, NULL), 0);
	IS(cuMemFreeAsync(d, NULL), 1);
	IS(cuGraphLaunch(exec, NULL), 0);
	IS(cuGraphExecDestroy(exec), 0);
	IS(cuGraphExecDestroy(exec), 1);
	IS(cuGraphInstantiateWithFlags(&exec, graph, AUTO_FREE), 0);
	IS(cuGraphLaunch(exec, NULL), 0);
	IS(cuGraphLaunch(exec, NULL), 0);
	IS(cuGraphExecDestroy(exec), 0);
	IS(cuGraphDestroy(graph), 0);
	IS(cuGraphDestroy(graph), 1);
	IS(cuMemFree_v2(d), 0);
	IS(cuMemFree_v2(d), 1);
	IS(cuDevicePrimaryCtxReset_v2(0), 0);
}

void case_graph_capture(void)
{
	CUgraph graph, during, mine;
	CUgraphExec exec;
	CUdeviceptr d, e, f;
	CUstream s;
	int status;

	begin();
	IS(cuMemAlloc_v2(&f, 100), 0);
	IS(cuStreamCreate(&s, 1), 0);
	for (int mode = 0; mode < 3; mode++) {
		IS(cuStreamBeginCapture_v2(s, mode), 0);
		IS(cuMemAllocAsync(&d, 4000, s), 0);
		IS(cuMemAllocAsync(&e, 5000, s), 0);
		IS(cuMemFreeAsync(e, s), 0);
		IS(cuMemFreeAsync(e, s), 1);
		IS(cuMemFreeAsync(f, s), 1);
		IS(cuStreamGetCaptureInfo_v2(s, &status, NULL, &during, NULL, NULL), 0);
		IS(status, 1);
		IS(cuStreamEndCapture(s, &graph), 0);
		IS(graph == during, 1);
		IS(cuGraphInstantiate_v2(&exec, graph, NULL, NULL, 0), 0);
		IS(cuGraphDestroy(graph), 0);
		IS(cuGraphLaunch(exec, s), 0);
		IS(cuMemFree_v2(e), 1);
		IS(cuMemFree_v2(d), 0);
		IS(cuGraphExecDestroy(exec), 0);
	}
	IS(cuGraphCreate(&mine, 0), 0);
	IS(cuStreamBeginCaptureToGraph(s, mine, NULL, NULL, 0, 2), 0);
	IS(cuStreamGetCaptureInfo_v3(s, &status, NULL, &during, NULL, NULL, NULL), 0);
	IS(during == mine, 1);
	IS(cuMemAllocAsync(&d, 4000, s), 0);
	IS(cuStreamEndCapture(s, &graph), 0);
	IS(graph == mine, 1);
	/* A capture that was ended takes its graph away. */
	IS(cuStreamBeginCapture_v2(s, 0), 0);
	IS(cuMemAllocAsync(&d, 4000, s), 0);
	IS(cuMemAlloc_v2(&e, 100), 900);
	IS(cuMemAllocAsync(&e, 4000, s), 901);
	IS(cuStreamGetCaptureInfo_v2(s, &status, NULL, &during, NULL, NULL), 0);
	IS(status, 2);
	IS(cuStreamEndCapture(s, &graph), 901);
	IS(graph == NULL, 1);
}

void case_graph_frees(void)
{
	CUgraphNodeParams params = { .type = 11 };
	CUgraph makes, frees, both;
	CUgraphExec maker, freer;
	CUgraphNode node;
	CUdeviceptr d, e;

	begin();
	makes = graph_of(1000, &d);
	both = graph_of(2000, &e);
	IS(cuGraphCreate(&frees, 0), 0);
	IS(cuGraphAddMemFreeNode(&node, frees, NULL, 0, block(100)), 1);
	params.free.dptr = d;
	IS(cuGraphAddNode_v2(&node, frees, NULL, NULL, 0, &params), 0);
	IS(cuGraphAddNode(&node, frees, NULL, 0, &params), 1);
	IS(cuGraphAddMemFreeNode(&node, makes, NULL, 0, d), 1);
	IS(cuGraphInstantiateWithFlags(&freer, frees, 0), 0);
	IS(cuGraphLaunch(freer, NULL), 1);
	IS(cuGraphInstantiateWithFlags(&maker, makes, 0), 0);
	IS(cuGraphLaunch(maker, NULL), 0);
	IS(cuGraphLaunch(freer, NULL), 0);
	IS(cuGraphLaunch(freer, NULL), 1);
	IS(cuMemFree_v2(d), 1);
	IS(cuGraphAddMemFreeNode(&node, both, NULL, 0, e), 0);
	IS(cuGraphAddMemFreeNode(&node, frees, NULL, 0, e), 1);
	IS(cuGraphInstantiateWithFlags(&maker, both, 0), 0);
	IS(cuGraphLaunch(maker, NULL), 0);
	IS(cuMemFree_v2(e), 1);
	IS(cuGraphLaunch(maker, NULL), 0);
}

void case_graph_children(void)
{
	CUgraphNodeParams params = { .type = 4 };
	CUgraphExec exec;
	CUgraph parent;
	CUgraphNode node;
	CUdeviceptr d;

	begin();
	IS(cuGraphCreate(&parent, 0), 0);
	params.graph.graph = graph_of(1000, &d);
	IS(cuGraphAddNode_v2(&node, parent, NULL, NULL, 0, &params), 801);
	params.graph.ownership = 1;
	IS(cuGraphAddNode_v2(&node, parent, NULL, NULL, 0, &params), 0);
	IS(cuGraphInstantiateWithFlags(&exec, params.graph.graph, 0), 1);
	IS(cuGraphDestroy(params.graph.graph), 1);
	IS(cuGraphInstantiateWithFlags(&exec, parent, 0), 0);
	IS(cuGraphLaunch(exec, NULL), 0);
	IS(cuGraphDestroy(parent), 0);
	IS(cuMemFree_v2(d), 0);
}

void case_graph_update(void)
{
	CUdeviceptr d, e, f;
	CUgraphExec exec, other;
	CUgraph graph;

	begin();
	IS(cuGraphInstantiateWithFlags(&exec, graph_of(1000, &d), 0), 0);
	IS(cuGraphLaunch(exec, NULL), 0);
	graph = graph_of(2000, &e);
	IS(cuGraphExecUpdate_v2(exec, graph, NULL), 0);
	IS(cuGraphInstantiateWithFlags(&other, graph, 0), 801);
	IS(cuGraphLaunch(exec, NULL), 0);
	IS(cuGraphLaunch(exec, NULL), 1);
	IS(cuMemFree_v2(d), 0);
	IS(cuMemFree_v2(e), 0);
	graph = graph_of(3000, &f);
	IS(cuGraphInstantiateWithFlags(&other, graph, 0), 0);
	IS(cuGraphExecUpdate(exec, graph, NULL, NULL), 801);
}

void case_attached(void)
{
	CUcontext primary = begin(), context, same;
	CUdeviceptr d;

	IS(cuCtxCreate_v2(&context, 0, 0), 0);
	d = block(100);
	IS(cuCtxAttach(&same, 1), 1);
	IS(cuCtxAttach(&same, 0), 0);
	IS(same == context, 1);
	IS(cuCtxDetach(primary), 201);
	IS(cuCtxDetach(context), 0);
	IS(cuMemFree_v2(d), 0);
	d = block(100);
	IS(cuCtxDetach(context), 0);
	IS(cuMemFree_v2(d), 1);
}

void case_green(void)
{
	CUcontext primary, context, current;
	CUdevResourceDesc resources;
	CUdeviceptr d, e;
	CUgreenCtx green;
	char resource[512] = { 0 };

	begin();
	IS(cuDevicePrimaryCtxRetain(&primary, 0), 0);
	IS(cuDeviceGetDevResource(0, resource, 1), 0);
	IS(cuDevResourceGenerateDesc(&resources, resource, 1), 0);
	IS(cuGreenCtxCreate(&green, resources, 0, 1), 0);
	IS(cuCtxFromGreenCtx(&context, green), 0);
	IS(context != primary, 1);
	IS(cuCtxSetCurrent(context), 0);
	IS(cuCtxGetCurrent(&current), 0);
	IS(current == context, 1);
	d = block(100);
	e = block(200);
	IS(cuDevicePrimaryCtxReset_v2(0), 800);
	IS(cuGreenCtxDestroy(green), 0);
	IS(cuGreenCtxDestroy(green), 201);
	IS(cuMemFree_v2(d), 709);
	IS(cuCtxSetCurrent(primary), 0);
	IS(cuMemFree_v2(d), 0);
	IS(cuDevicePrimaryCtxReset_v2(0), 0);
	IS(cuDevicePrimaryCtxRetain(&current, 0), 0);
	IS(cuMemFree_v2(e), 1);
}
