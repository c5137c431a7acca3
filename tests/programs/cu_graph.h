/* SPDX-License-Identifier: MIT
 *
 * Graph and green-context calls of the driver, declared as cuda.h has them, for the programs
 * that need more than cu.h.
 */
#ifndef GPULEAK_TESTS_PROGRAMS_CU_GRAPH_H
#define GPULEAK_TESTS_PROGRAMS_CU_GRAPH_H

#include "cu.h"

typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUgreenCtx_st *CUgreenCtx;

struct alloc_node {
	int type, handle_types, location_type, location;
	void *attributes;
	size_t max_size;
	unsigned short usage;
	unsigned char reserved[54];
	const void *access;
	size_t access_count, bytes;
	CUdeviceptr address;
};
struct node {
	int type, reserved0[3];
	union {
		long long reserved1[29];
		struct {
			CUgraph graph;
			int ownership;
		} child;
		struct alloc_node alloc;
		struct {
			CUdeviceptr address;
		} free;
	};
	long long reserved2;
};
struct instantiate {
	unsigned long long flags;
	void *stream;
	CUgraphNode error;
	int result;
};
enum { NODE_GRAPH = 4, NODE_ALLOC = 10, NODE_FREE = 11 };
enum { AUTO_FREE_ON_LAUNCH = 1 };
enum { CAPTURE_GLOBAL, CAPTURE_THREAD_LOCAL, CAPTURE_RELAXED };

CUresult cuGraphCreate(CUgraph *graph, unsigned int flags);
CUresult cuGraphClone(CUgraph *clone, CUgraph graph);
CUresult cuGraphDestroy(CUgraph graph);
CUresult cuGraphAddMemAllocNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
				size_t count, struct alloc_node *params);
CUresult cuGraphAddMemFreeNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
			       size_t count, CUdeviceptr address);
CUresult cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
			struct node *params);
CUresult cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
			   const void *edges, size_t count, struct node *params);
CUresult cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, CUgraphNode *error, char *log,
			    size_t bytes);
CUresult cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph, CUgraphNode *error, char *log,
			       size_t bytes);
CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags);
CUresult cuGraphInstantiateWithParams(CUgraphExec *exec, CUgraph graph,
				      struct instantiate *params);
CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec *exec, CUgraph graph,
					   struct instantiate *params);
CUresult cuGraphLaunch(CUgraphExec exec, void *stream);
CUresult cuGraphLaunch_ptsz(CUgraphExec exec, void *stream);
CUresult cuGraphExecDestroy(CUgraphExec exec);
CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode *error, int *result);
CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, void *info);
CUresult cuStreamBeginCapture(void *stream);
CUresult cuStreamBeginCapture_ptsz(void *stream);
CUresult cuStreamBeginCapture_v2_ptsz(void *stream, int mode);
CUresult cuStreamBeginCaptureToGraph(void *stream, CUgraph graph, const CUgraphNode *after,
				     const void *edges, size_t count, int mode);
CUresult cuStreamEndCapture_ptsz(void *stream, void **graph);
CUresult cuStreamIsCapturing(void *stream, int *status);
CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *address, size_t bytes, void *pool,
				      void *stream);

CUresult cuCtxAttach(CUcontext *context, unsigned int flags);
CUresult cuCtxDetach(CUcontext context);
CUresult cuDeviceGetDevResource(CUdevice device, void *resource, int type);
CUresult cuDevResourceGenerateDesc(void **description, void *resources, unsigned int count);
CUresult cuGreenCtxCreate(CUgreenCtx *green, void *description, CUdevice device,
			  unsigned int flags);
CUresult cuGreenCtxDestroy(CUgreenCtx green);
CUresult cuCtxFromGreenCtx(CUcontext *context, CUgreenCtx green);

#endif
