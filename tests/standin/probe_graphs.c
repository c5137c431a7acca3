/* SPDX-License-Identifier: MIT
 *
 * Questions to a real driver about what keeps memory alive: graphs, green contexts, virtual
 * memory used wrongly. As probe.c: prints, judges nothing. Needs a CUDA toolkit to build:
 *   cc -w -o probe_graphs probe_graphs.c -I$CUDA/include -L$CUDA/lib64/stubs -lcuda -lpthread
 *   for i in graph capture reset green vmm legacy 1 2 3 4 5 6; do ./probe_graphs $i; done
 * The numbered questions may crash a driver: each is the last one of its run.
 */
#include <cuda.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define P(call) printf("%-78s %d\n", #call, (int)(call))
#define MIB ((size_t)1 << 20)

static CUcontext context;
static CUstream stream;

static void known(const char *when, CUdeviceptr d)
{
	CUdeviceptr base = 0, attribute = 0;
	size_t size = 0, unused, total;
	CUcontext owner = NULL;
	int r = cuMemGetAddressRange(&base, &size, d);
	int s = cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, d);

	cuMemGetInfo(&unused, &total);
	printf("  %s: range %d (size %zu), context %d (%s), %zu MiB used\n", when, r, size, s,
	       owner == NULL ? "none" : owner == context ? "current" : "other",
	       (total - unused) / MIB);
}

static void graph_memory(const char *when)
{
	cuuint64_t n[4] = { 0 };

	for (int i = 0; i < 4; i++)
		cuDeviceGetGraphMemAttribute(0, (CUgraphMem_attribute)i, &n[i]);
	printf("  %s: graph memory used %llu, high %llu, reserved %llu, high %llu\n", when,
	       (unsigned long long)n[0], (unsigned long long)n[1], (unsigned long long)n[2],
	       (unsigned long long)n[3]);
}

static CUdeviceptr alloc_node(CUgraph graph, CUgraphNode *node, size_t bytes)
{
	CUDA_MEM_ALLOC_NODE_PARAMS params = { .bytesize = bytes };

	params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	params.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	P(cuGraphAddMemAllocNode(node, graph, NULL, 0, &params));
	return params.dptr;
}

static void graph(void)
{
	CUgraph g, h;
	CUgraphExec x, y, z;
	CUgraphNode a, f;
	CUdeviceptr d;

	cuGraphCreate(&g, 0);
	d = alloc_node(g, &a, 64 * MIB);
	known("before instantiate", d);
	P(cuMemFree(d));
	P(cuMemFreeAsync(d, stream));
	P(cuGraphInstantiateWithFlags(&x, g, 0));
	P(cuGraphInstantiateWithFlags(&y, g, 0));
	P(cuGraphClone(&h, g));
	P(cuGraphDestroyNode(a));
	known("before launch", d);
	P(cuGraphLaunch(x, stream));
	P(cuStreamSynchronize(stream));
	known("launched", d);
	graph_memory("launched");
	P(cuGraphLaunch(x, stream));
	P(cuMemFree(d));
	known("freed by cuMemFree", d);
	graph_memory("freed");
	P(cuMemFree(d));
	P(cuGraphLaunch(x, stream));
	P(cuMemFreeAsync(d, stream));
	P(cuMemFreeAsync(d, stream));
	P(cuStreamSynchronize(stream));
	P(cuGraphLaunch(x, stream));
	cuStreamSynchronize(stream);
	cuGraphCreate(&h, 0);
	P(cuGraphAddMemFreeNode(&f, h, NULL, 0, d));
	P(cuGraphInstantiateWithFlags(&z, h, 0));
	P(cuGraphLaunch(z, stream));
	cuStreamSynchronize(stream);
	known("freed by another graph", d);
	P(cuGraphLaunch(z, stream));
	P(cuGraphLaunch(x, stream));
	cuStreamSynchronize(stream);
	P(cuGraphExecDestroy(x));
	known("exec destroyed, outstanding", d);
	graph_memory("exec destroyed, outstanding");
	P(cuGraphInstantiateWithFlags(&y, g, 0));
	P(cuGraphLaunch(y, stream));
	P(cuGraphDestroy(g));
	known("graph destroyed, outstanding", d);
	graph_memory("graph destroyed");
	P(cuGraphExecDestroy(y));
	P(cuDeviceGraphMemTrim(0));
	known("trimmed", d);
	P(cuMemFree(d));
	known("freed after all", d);
	P(cuMemFree(d));
}

static void graph_frees(void)
{
	CUgraph g;
	CUgraphExec x;
	CUgraphNode a, f, n;
	CUdeviceptr d, e;

	cuGraphCreate(&g, 0);
	d = alloc_node(g, &a, 32 * MIB);
	P(cuGraphInstantiateWithFlags(&x, g, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
	for (int i = 0; i < 3; i++)
		P(cuGraphLaunch(x, stream));
	cuStreamSynchronize(stream);
	known("auto free, three launches", d);
	graph_memory("auto free");
	P(cuGraphExecDestroy(x));
	P(cuGraphDestroy(g));
	known("auto free, both destroyed", d);
	P(cuMemFree(d));
	cuGraphCreate(&g, 0);
	d = alloc_node(g, &a, 32 * MIB);
	P(cuGraphAddMemFreeNode(&f, g, &a, 1, d));
	P(cuGraphInstantiateWithFlags(&x, g, 0));
	P(cuGraphLaunch(x, stream));
	cuStreamSynchronize(stream);
	known("freed inside", d);
	P(cuMemFree(d));
	P(cuMemAlloc(&e, 4096));
	P(cuGraphAddMemFreeNode(&n, g, &f, 1, e));
	cuGraphExecDestroy(x);
	cuGraphDestroy(g);
}

static void *other(void *graph)
{
	CUstreamCaptureStatus status;
	cuuint64_t id;
	CUgraph seen = NULL;

	cuCtxSetCurrent(context);
	P(cuStreamIsCapturing(stream, &status));
	P(cuStreamGetCaptureInfo_v2(stream, &status, &id, &seen, NULL, NULL));
	printf("  other thread: the same graph %d\n", seen == *(CUgraph *)graph);
	return NULL;
}

static void capture(void)
{
	static const char *const modes[] = { "global", "thread", "relaxed" };
	CUstreamCaptureStatus status;
	cuuint64_t id;
	CUdeviceptr d, e;
	pthread_t thread;
	CUgraphExec x;

	for (int mode = 0; mode < 3; mode++) {
		CUgraph g = NULL, seen = NULL, inside = NULL;

		printf("mode %s\n", modes[mode]);
		P(cuStreamBeginCapture(stream, (CUstreamCaptureMode)mode));
		P(cuStreamGetCaptureInfo_v2(stream, &status, &id, &inside, NULL, NULL));
		P(cuStreamGetCaptureInfo_v3(stream, &status, &id, &seen, NULL, NULL, NULL));
		printf("  status %d, same graph %d\n", status, inside == seen);
		P(cuMemAllocAsync(&d, 16 * MIB, stream));
		pthread_create(&thread, NULL, other, &inside);
		pthread_join(thread, NULL);
		P(cuMemAllocAsync(&e, 8 * MIB, stream));
		P(cuMemFreeAsync(e, stream));
		P(cuStreamEndCapture(stream, &g));
		printf("  the graph of the end is that of the middle: %d\n", g == inside);
		P(cuGraphInstantiateWithFlags(&x, g, 0));
		P(cuGraphLaunch(x, stream));
		cuStreamSynchronize(stream);
		known("captured, launched", d);
		known("captured, freed inside", e);
		graph_memory("captured");
		P(cuMemFreeAsync(d, stream));
		cuGraphExecDestroy(x);
		cuGraphDestroy(g);
	}
	cuDeviceGraphMemTrim(0);
	graph_memory("trimmed");
}

static void reset(void)
{
	CUgraph g;
	CUgraphExec x;
	CUgraphNode a;
	CUdeviceptr d, e, p;
	CUmemGenericAllocationHandle h;
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED };
	CUcontext again;

	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	cuGraphCreate(&g, 0);
	d = alloc_node(g, &a, 64 * MIB);
	cuGraphInstantiateWithFlags(&x, g, 0);
	P(cuGraphLaunch(x, stream));
	P(cuMemAllocAsync(&e, 64 * MIB, stream));
	cuStreamSynchronize(stream);
	P(cuMemCreate(&h, 64 * MIB, &prop, 0));
	P(cuMemAddressReserve(&p, 64 * MIB, 0, 0, 0));
	P(cuMemMap(p, 64 * MIB, 0, h, 0));
	known("before", d);
	P(cuDevicePrimaryCtxReset(0));
	P(cuMemFree(d));
	P(cuDevicePrimaryCtxRetain(&again, 0));
	printf("  the same context %d\n", again == context);
	cuCtxSetCurrent(again);
	known("graph memory after reset", d);
	known("stream-ordered after reset", e);
	known("mapped after reset", p);
	P(cuMemFree(d));
	P(cuMemFree(e));
	P(cuMemUnmap(p, 64 * MIB));
	P(cuMemRelease(h));
	P(cuMemAddressFree(p, 64 * MIB));
	known("after", d);
}

static void green(void)
{
	CUdevResource resource, part;
	CUdevResourceDesc desc;
	CUgreenCtx green_context;
	CUcontext as_context = NULL, current = NULL;
	CUdeviceptr d, e;
	CUarray array;
	CUDA_ARRAY_DESCRIPTOR flat = { 64, 64, CU_AD_FORMAT_FLOAT, 1 };
	CUdevice device = -1;
	unsigned int parts = 1;
	void *host;

	P(cuDeviceGetDevResource(0, &resource, CU_DEV_RESOURCE_TYPE_SM));
	P(cuDevSmResourceSplitByCount(&part, &parts, &resource, NULL, 0, 16));
	P(cuDevResourceGenerateDesc(&desc, &part, 1));
	P(cuGreenCtxCreate(&green_context, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM));
	P(cuCtxFromGreenCtx(&as_context, green_context));
	P(cuCtxSetCurrent(as_context));
	P(cuCtxGetCurrent(&current));
	printf("  current is the green one %d, the primary %d\n", current == as_context,
	       current == context);
	P(cuCtxGetDevice(&device));
	P(cuMemAlloc(&d, 64 * MIB));
	P(cuMemAlloc(&e, 64 * MIB));
	P(cuMemAllocHost(&host, 4096));
	P(cuArrayCreate(&array, &flat));
	known("green current", d);
	P(cuGreenCtxDestroy(green_context));
	P(cuCtxGetCurrent(&current));
	printf("  current after destroy: %s\n",
	       current == as_context ? "green" : current == context ? "primary" : "another");
	P(cuMemFree(e));
	P(cuCtxSetCurrent(context));
	known("green destroyed", d);
	P(cuMemFree(d));
	P(cuMemFreeHost(host));
	P(cuArrayDestroy(array));
	P(cuDevSmResourceSplitByCount(&part, &parts, &resource, NULL, 0, 16));
	P(cuDevResourceGenerateDesc(&desc, &part, 1));
	P(cuGreenCtxCreate(&green_context, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM));
	P(cuCtxFromGreenCtx(&as_context, green_context));
	P(cuCtxSetCurrent(as_context));
	P(cuMemAlloc(&d, 64 * MIB));
	P(cuDevicePrimaryCtxReset(0));
	P(cuCtxSetCurrent(context));
	P(cuDevicePrimaryCtxRetain(&current, 0));
	known("primary reset", d);
	P(cuMemFree(d));
}

static void vmm(void)
{
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED };
	CUmemGenericAllocationHandle h, again = 0, k;
	CUmemAccessDesc access = { .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUdeviceptr p, q;
	int fd = -1;

	prop.location.type = access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	P(cuMemCreate(&h, 4 * MIB, &prop, 0));
	P(cuMemCreate(&k, 4 * MIB, &prop, 0));
	printf("  handles %#llx %#llx\n", h, k);
	P(cuMemAddressReserve(&p, 16 * MIB, 0, 0, 0));
	P(cuMemMap(p, 4 * MIB, 0, h, 0));
	P(cuMemMap(p + 4 * MIB, 4 * MIB, 0, h, 0));
	P(cuMemMap(p + 8 * MIB, 4 * MIB, 0, k, 0));
	P(cuMemSetAccess(p, 12 * MIB, &access, 1));
	known("mapped", p);
	P(cuMemRetainAllocationHandle(&again, (void *)p));
	printf("  the same handle %d\n", again == h);
	P(cuMemRelease(again));
	P(cuMemRelease(h));
	known("released, mapped twice", p);
	P(cuMemRetainAllocationHandle(&again, (void *)(p + 4 * MIB)));
	printf("  the same handle after release %d\n", again == h);
	P(cuMemRelease(again));
	P(cuMemAddressFree(p, 16 * MIB));
	P(cuMemAddressFree(p, 8 * MIB));
	P(cuMemFree(p));
	P(cuMemFreeAsync(p, stream));
	P(cuMemUnmap(p, 2 * MIB));
	P(cuMemUnmap(p + 2 * MIB, 2 * MIB));
	P(cuMemUnmap(p + 4 * MIB, 12 * MIB));
	P(cuMemUnmap(p + 4 * MIB, 8 * MIB));
	known("unmapped one of two", p);
	P(cuMemUnmap(p + 4 * MIB, 4 * MIB));
	P(cuMemUnmap(p, 4 * MIB));
	P(cuMemAddressFree(p, 8 * MIB));
	P(cuMemAddressFree(p + 8 * MIB, 8 * MIB));
	P(cuMemAddressFree(p, 16 * MIB));
	P(cuMemAddressFree(p, 16 * MIB));
	P(cuMemExportToShareableHandle(&fd, k, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	P(cuMemImportFromShareableHandle(&again, (void *)(long)fd,
					 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	printf("  imported in the same process: the same handle %d\n", again == k);
	P(cuMemRelease(again));
	P(cuMemRelease(k));
	P(cuMemAlloc(&q, 4 * MIB));
	P(cuMemFreeHost((void *)q));
	P(cuMemUnmap(q, 4 * MIB));
	P(cuMemAddressFree(q, 4 * MIB));
	P(cuMemHostUnregister((void *)q));
	P(cuIpcCloseMemHandle(q));
	P(cuMemFree(q));
	prop.location.type = CU_MEM_LOCATION_TYPE_HOST;
	P(cuMemCreate(&h, 4 * MIB, &prop, 0));
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	cuCtxSetCurrent(NULL);
	prop.requestedHandleTypes = 0;
	P(cuMemCreate(&h, 4 * MIB, &prop, 0));
	P(cuMemRelease(h));
}

static void legacy(void)
{
	CUcontext own, same = NULL;
	CUdeviceptr d;

	P(cuCtxCreate_v2(&own, 0, 0));
	P(cuMemAlloc(&d, MIB));
	P(cuCtxAttach(&same, 0));
	printf("  the same %d\n", same == own);
	P(cuCtxDetach(own));
	known("detached once", d);
	P(cuCtxDetach(own));
	P(cuMemFree(d));
	cuCtxSetCurrent(context);
	P(cuMemFree(d));
}

static void crash(int which)
{
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED };
	CUmemGenericAllocationHandle h = 0;
	CUdeviceptr d = 0;

	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	cuMemCreate(&h, 4 * MIB, &prop, 0);
	cuMemAlloc(&d, 4096);
	fflush(stdout);
	switch (which) {
	case 1:
		P(cuMemRelease(h));
		P(cuMemRelease(h));
		break;
	case 2:
		P(cuMemRelease(d));
		break;
	case 3:
		P(cuMemRelease(0));
		P(cuMemRelease(12345));
		break;
	case 4:
		P(cuMemFree(h));
		break;
	case 5:
		P(cuMemRetainAllocationHandle(&h, (void *)d));
		P(cuMemRetainAllocationHandle(NULL, (void *)d));
		break;
	case 6:
		P(cuMemCreate(NULL, 4 * MIB, &prop, 0));
		P(cuMemCreate(&h, 0, &prop, 0));
		P(cuMemCreate(&h, 5, &prop, 0));
		P(cuMemAddressReserve(NULL, 4 * MIB, 0, 0, 0));
		break;
	}
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "graph";

	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("== %s\n", what);
	if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) ||
	    cuStreamCreate(&stream, 1))
		return 1;
	if (strcmp(what, "graph") == 0)
		graph(), graph_frees();
	else if (strcmp(what, "capture") == 0)
		capture();
	else if (strcmp(what, "reset") == 0)
		reset();
	else if (strcmp(what, "green") == 0)
		green();
	else if (strcmp(what, "vmm") == 0)
		vmm();
	else if (strcmp(what, "legacy") == 0)
		legacy();
	else
		crash(atoi(what));
	return 0;
}
