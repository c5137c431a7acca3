/* SPDX-License-Identifier: MIT
 *
 * Memory of CUDA graphs: captured, made by hand, launched, launched again, freed by every
 * call that may, and lost. Each story is an argument.
 */
#include <pthread.h>
#include <string.h>
#include <sys/prctl.h>

#include "cu_graph.h"

static void *stream;

static CUgraph end_capture(void)
{
	void *graph;

	must(cuStreamEndCapture(stream, &graph), "end capture"); /* @end */
	return graph;
}

/* A graph that allocates BYTES, by capture. */
static CUgraph capture(size_t bytes, CUdeviceptr *address)
{
	must(cuStreamBeginCapture_v2(stream, CAPTURE_GLOBAL), "begin capture");
	must(cuMemAllocAsync(address, bytes, stream), "alloc"); /* @captured */
	return end_capture(); /* @capture */
}

static CUgraphExec instantiate(CUgraph graph, unsigned long long flags)
{
	CUgraphExec exec;

	must(cuGraphInstantiateWithFlags(&exec, graph, flags), "instantiate"); /* @instantiated */
	return exec;
}

static void launch(CUgraphExec exec)
{
	must(cuGraphLaunch(exec, stream), "launch"); /* @launch */
}

static void never(void)
{
	CUdeviceptr address;

	instantiate(capture(1000, &address), 0);
}

static void leak(void)
{
	CUdeviceptr address;

	launch(instantiate(capture(1001, &address), 0)); /* @leak */
}

/* Every call that may allocate in a capture, each begun by another. */
static void captures(void)
{
	void *pool, *graph;
	CUdeviceptr address;

	must(cuDeviceGetDefaultMemPool(&pool, 0), "pool");
	must(cuStreamBeginCapture(stream), "begin");
	must(cuMemAllocAsync(&address, 1101, stream), "alloc"); /* @one */
	must(cuMemAllocAsync_ptsz(&address, 1102, stream), "alloc"); /* @two */
	launch(instantiate(end_capture(), 0));
	must(cuStreamBeginCapture_ptsz(stream), "begin");
	must(cuMemAllocFromPoolAsync(&address, 1103, pool, stream), "alloc"); /* @three */
	must(cuStreamEndCapture_ptsz(stream, &graph), "end");
	launch(instantiate(graph, 0));
	must(cuStreamBeginCapture_v2_ptsz(stream, CAPTURE_RELAXED), "begin");
	must(cuMemAllocFromPoolAsync_ptsz(&address, 1104, pool, stream), "alloc"); /* @four */
	must(cuGraphLaunch_ptsz(instantiate(end_capture(), 0), stream), "launch");
}

static CUgraph by_hand(size_t bytes, CUdeviceptr *address)
{
	struct alloc_node params = { .type = 1, .location_type = 1, .bytes = bytes };
	CUgraphNode node;
	CUgraph graph;

	must(cuGraphCreate(&graph, 0), "create");
	must(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &params), "node"); /* @node */
	*address = params.address;
	return graph;
}

static void add_free(CUgraph graph, CUdeviceptr address)
{
	CUgraphNode node;

	must(cuGraphAddMemFreeNode(&node, graph, NULL, 0, address), "free node");
}

/* Each way to make a node, and each way to instantiate. */
static void nodes(void)
{
	struct node params = { .type = NODE_ALLOC };
	struct instantiate how = { 0 };
	CUgraphExec exec;
	CUgraphNode node;
	CUgraph graph;
	CUdeviceptr address;

	graph = by_hand(1201, &address); /* @by_hand */
	must(cuGraphInstantiate(&exec, graph, NULL, NULL, 0), "instantiate");
	launch(exec);
	params.alloc.type = params.alloc.location_type = 1;
	params.alloc.bytes = 1202;
	must(cuGraphCreate(&graph, 0), "create");
	must(cuGraphAddNode(&node, graph, NULL, 0, &params), "node"); /* @any_node */
	must(cuGraphInstantiate_v2(&exec, graph, NULL, NULL, 0), "instantiate");
	launch(exec);
	params.alloc.bytes = 1203;
	must(cuGraphCreate(&graph, 0), "create");
	must(cuGraphAddNode_v2(&node, graph, NULL, NULL, 0, &params), "node"); /* @any_node_v2 */
	must(cuGraphInstantiateWithParams(&exec, graph, &how), "instantiate");
	launch(exec);
	graph = by_hand(1204, &address);
	must(cuGraphInstantiateWithParams_ptsz(&exec, graph, &how), "instantiate");
	launch(exec);
	must(cuMemFree_v2(address), "free");
}

/* On another device than the current one. */
static void device(void)
{
	struct alloc_node params = { .type = 1, .location_type = 1, .location = 1, .bytes = 1251 };
	CUgraphNode node;
	CUgraph graph;

	must(cuGraphCreate(&graph, 0), "create");
	must(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &params), "node"); /* @elsewhere_node */
	launch(instantiate(graph, 0));
}

static void freed(void)
{
	struct node params = { .type = NODE_FREE };
	CUdeviceptr address;
	CUgraphNode node;
	CUgraphExec exec;
	CUgraph frees;

	exec = instantiate(capture(1301, &address), 0);
	launch(exec);
	must(cuMemFree_v2(address), "free");
	launch(exec);
	must(cuMemFreeAsync(address, stream), "free");
	launch(exec);
	must(cuGraphCreate(&frees, 0), "create");
	add_free(frees, address);
	launch(instantiate(frees, 0));
	launch(exec);
	params.free.address = address;
	must(cuGraphCreate(&frees, 0), "create");
	must(cuGraphAddNode_v2(&node, frees, NULL, NULL, 0, &params), "free node");
	launch(instantiate(frees, 0));
	launch(exec);
	must(cuStreamBeginCapture_v2(stream, CAPTURE_GLOBAL), "begin");
	must(cuMemFreeAsync_ptsz(address, stream), "captured free");
	launch(instantiate(end_capture(), 0));
}

static void again(unsigned long long flags)
{
	CUdeviceptr address;
	CUgraphExec exec = instantiate(capture(1401, &address), flags); /* @again */

	for (int i = 0; i < 8; i++)
		printf("%d", cuGraphLaunch(exec, stream));
	printf("\n");
}

static void inside(void)
{
	CUdeviceptr address;
	CUgraphExec exec;
	CUgraph graph;

	must(cuStreamBeginCapture_v2(stream, CAPTURE_GLOBAL), "begin");
	must(cuMemAllocAsync(&address, 1501, stream), "alloc");
	must(cuMemFreeAsync(address, stream), "free");
	exec = instantiate(end_capture(), 0);
	launch(exec);
	launch(exec);
	graph = by_hand(1502, &address);
	add_free(graph, address);
	launch(instantiate(graph, 0));
}

static void twice(void)
{
	CUdeviceptr address;
	CUgraphExec exec = instantiate(capture(1601, &address), 0), freer; /* @main_twice */
	CUgraph frees;

	launch(exec);
	must(cuMemFree_v2(address), "free"); /* @once */
	printf("again: %d\n", cuMemFree_v2(address)); /* @twice */
	must(cuGraphCreate(&frees, 0), "create");
	add_free(frees, address);
	freer = instantiate(frees, 0);
	launch(exec);
	must(cuGraphLaunch(freer, stream), "launch"); /* @by_launch */
	printf("by launch again: %d\n", cuGraphLaunch(freer, stream)); /* @launch_twice */
}

/* A graph that frees another's memory and allocates its own is refused for either. */
static void both_ways(void)
{
	CUdeviceptr own, others;
	CUgraphExec other = instantiate(by_hand(1651, &others), 0), exec; /* @others */
	CUgraph graph = by_hand(1652, &own); /* @own */

	add_free(graph, others);
	exec = instantiate(graph, 0);
	launch(other);
	launch(exec); /* @first */
	printf("own is there: %d\n", cuGraphLaunch(exec, stream));
	must(cuMemFree_v2(own), "free");
	printf("other's is not: %d\n", cuGraphLaunch(exec, stream)); /* @second */
}

static void early(void)
{
	CUdeviceptr address;

	instantiate(capture(1701, &address), 0);
	printf("early: %d\n", cuMemFree_v2(address)); /* @early */
}

/* The driver refuses a launch, in the middle of several that free what was before. */
static void failing(void)
{
	CUdeviceptr address;
	CUgraphExec exec = instantiate(capture(1801, &address), AUTO_FREE_ON_LAUNCH); /* @failing */

	for (int i = 0; i < 4; i++)
		printf("%d ", cuGraphLaunch(exec, stream));
	printf("\n");
}

/* What is outstanding outlives its graph. */
static void destroyed(void)
{
	CUdeviceptr lost, late;
	CUgraph graph = capture(1901, &lost), other = by_hand(1902, &late); /* @destroyed */
	CUgraphExec exec = instantiate(graph, 0); /* @instantiate */
	CUgraphExec another = instantiate(other, 0);

	launch(exec);
	launch(another);
	must(cuGraphExecDestroy(exec), "destroy"); /* @exec_once */
	must(cuGraphDestroy(graph), "destroy"); /* @graph_once */
	must(cuGraphDestroy(other), "destroy");
	must(cuGraphExecDestroy(another), "destroy");
	must(cuMemFree_v2(late), "free");
	printf("exec again: %d\n", cuGraphExecDestroy(exec)); /* @exec_again */
	printf("graph again: %d\n", cuGraphDestroy(graph)); /* @graph_again */
}

/* Neither is gone when the driver refuses to destroy it. */
static void stuck(void)
{
	CUdeviceptr address;
	CUgraph graph = capture(1951, &address); /* @stuck */
	CUgraphExec exec;

	printf("%d ", cuGraphDestroy(graph));
	exec = instantiate(graph, AUTO_FREE_ON_LAUNCH);
	printf("%d\n", cuGraphExecDestroy(exec));
	launch(exec);
	launch(exec);
}

/* A capture that fails takes its graph away, and the next graph gets its handle. */
static void invalidated(void)
{
	CUdeviceptr address;
	CUgraph graphs[8];
	void *graph;

	for (int i = 0; i < 3; i++) {
		must(cuStreamBeginCapture_v2(stream, CAPTURE_GLOBAL), "begin");
		must(cuMemAllocAsync(&address, 2001, stream), "alloc");
		printf("%d ", cuMemAlloc_v2(&address, 100));
		printf("%d\n", cuStreamEndCapture(stream, &graph));
		if (i < 2)
			continue;
		for (int k = 0; k < 8; k++) {
			must(cuGraphCreate(&graphs[k], 0), "create");
			launch(instantiate(graphs[k], 0));
		}
	}
	launch(instantiate(capture(2002, &address), 0)); /* @after */
}

static void *capture_elsewhere(void *address)
{
	CUcontext context;

	must(cuDevicePrimaryCtxRetain(&context, 0), "retain");
	must(cuCtxSetCurrent(context), "set current");
	return capture(2101, address); /* @elsewhere */
}

static void threads(void)
{
	CUdeviceptr address;
	pthread_t thread;
	void *graph;

	pthread_create(&thread, NULL, capture_elsewhere, &address);
	pthread_join(thread, &graph);
	launch(instantiate(graph, 0));
}

/* What was captured, made and launched beside a capture in each mode leaves it whole. */
static void modes(void)
{
	CUdeviceptr mine, other;
	CUgraphExec exec = instantiate(by_hand(2201, &other), AUTO_FREE_ON_LAUNCH); /* @beside */
	void *beside, *graph;
	int status;

	must(cuStreamCreate(&beside, 1), "stream");
	for (int mode = CAPTURE_GLOBAL; mode <= CAPTURE_RELAXED; mode++) {
		must(cuStreamBeginCapture_v2(stream, mode), "begin");
		must(cuMemAllocAsync(&mine, 2202, stream), "alloc");
		must(cuGraphLaunch(exec, beside), "launch");
		cuGraphExecDestroy(instantiate(by_hand(2203, &other), 0));
		must(cuMemAllocAsync(&other, 2204, beside), "alloc");
		must(cuMemFreeAsync(other, beside), "free");
		must(cuMemFreeAsync(mine, stream), "free");
		printf("into a capture: %d\n", cuGraphLaunch(exec, stream));
		must(cuStreamIsCapturing(stream, &status), "capturing");
		printf("mode %d: status %d, ", mode, status);
		printf("end %d\n", cuStreamEndCapture(stream, &graph));
		must(cuGraphDestroy(graph), "destroy");
	}
}

/* Captured into a graph that was there before, twice. */
static void to_graph(void)
{
	CUdeviceptr address;
	CUgraph graph = by_hand(2301, &address); /* @before */

	for (int i = 0; i < 2; i++) {
		must(cuStreamBeginCaptureToGraph(stream, graph, NULL, NULL, 0, CAPTURE_GLOBAL),
		     "begin");
		must(cuMemAllocAsync(&address, 2302, stream), "alloc"); /* @into */
		end_capture();
	}
	launch(instantiate(graph, 0));
}

static void child(void)
{
	struct node params = { .type = NODE_GRAPH };
	CUdeviceptr lost, paired;
	CUgraphNode node;
	CUgraph parent;

	must(cuGraphCreate(&parent, 0), "create");
	params.child.graph = by_hand(2401, &lost); /* @child */
	params.child.ownership = 1;
	must(cuGraphAddNode_v2(&node, parent, NULL, NULL, 0, &params), "child");
	params.child.graph = by_hand(2402, &paired);
	must(cuGraphAddNode_v2(&node, parent, NULL, NULL, 0, &params), "child");
	add_free(parent, paired);
	launch(instantiate(parent, 0));
	must(cuGraphDestroy(parent), "destroy");
}

/* An executable graph does what it was updated with. */
static void updated(void)
{
	CUdeviceptr first, second, third;
	CUgraph graph = by_hand(2451, &first), other; /* @first_graph */
	CUgraphExec exec = instantiate(graph, AUTO_FREE_ON_LAUNCH);
	char info[64] = { 0 };
	CUgraphNode node;
	int result;

	launch(exec);
	must(cuMemFree_v2(first), "free");
	other = by_hand(2452, &second); /* @second_graph */
	must(cuGraphExecUpdate(exec, other, &node, &result), "update");
	must(cuGraphDestroy(other), "destroy");
	launch(exec);
	launch(exec);
	other = by_hand(2453, &third); /* @third_graph */
	instantiate(other, 0);
	printf("instantiated: %d\n", cuGraphExecUpdate_v2(exec, other, info));
	launch(exec);
	must(cuMemFree_v2(second), "free");
	other = by_hand(2454, &third); /* @fourth_graph */
	must(cuGraphExecUpdate_v2(exec, other, info), "update");
	launch(exec);
}

static void wrong(void)
{
	/* The driver reads what an invalid stream points to, and may crash on it. */
	static CUgraphNode no_stream[512];
	struct alloc_node params = { .type = 1, .location_type = 1, .bytes = 0 };
	CUdeviceptr address;
	CUgraphNode node;
	CUgraphExec exec;
	CUgraph graph = by_hand(2501, &address);

	printf("%d ", cuGraphAddMemAllocNode(&node, graph, NULL, 0, NULL));
	printf("%d ", cuGraphAddMemAllocNode(&node, graph, NULL, 0, &params));
	params.bytes = 2502;
	printf("%d ", cuGraphAddMemAllocNode(NULL, graph, NULL, 0, &params));
	printf("%d ", cuGraphAddMemAllocNode(&node, NULL, NULL, 0, &params));
	printf("%d ", cuGraphAddNode(&node, graph, NULL, 0, NULL));
	printf("%d ", cuGraphAddNode_v2(&node, (CUgraph)&node, NULL, NULL, 0, NULL));
	printf("%d\n", cuGraphAddMemFreeNode(&node, graph, NULL, 0, 12345));
	printf("%d ", cuGraphCreate(NULL, 0));
	printf("%d ", cuGraphClone(NULL, graph));
	printf("%d ", cuGraphInstantiateWithFlags(NULL, graph, 0));
	printf("%d ", cuGraphInstantiateWithFlags(&exec, NULL, 0));
	printf("%d ", cuGraphInstantiateWithParams(&exec, graph, NULL));
	printf("%d ", cuGraphLaunch(NULL, stream));
	printf("%d ", cuGraphExecDestroy((CUgraphExec)&node));
	printf("%d\n", cuGraphDestroy(NULL));
	exec = instantiate(graph, 0);
	printf("%d ", cuGraphLaunch(exec, no_stream));
	printf("%d ", cuStreamBeginCapture_v2(NULL, 0));
	must(cuStreamBeginCapture_v2(stream, 0), "begin");
	printf("%d ", cuMemAllocAsync(NULL, 100, stream));
	printf("%d ", cuMemAllocAsync(&address, 0, stream));
	printf("%d ", cuMemFreeAsync(0, stream));
	printf("%d\n", cuStreamEndCapture(stream, (void **)&graph));
}

static void wild(void)
{
	CUdeviceptr address = 0;

	printf("%d ", cuMemAllocAsync(&address, 100, &address));
	printf("%d ", cuMemFreeAsync(address, &address));
	must(cuStreamBeginCapture_v2(stream, 0), "begin");
	printf("%d\n", cuMemFreeAsync(12345, stream)); /* @foreign */
}

static void round_of(size_t bytes)
{
	CUdeviceptr address;
	CUgraph graph = capture(bytes, &address);
	CUgraphExec exec = instantiate(graph, AUTO_FREE_ON_LAUNCH);

	launch(exec);
	launch(exec);
	must(cuMemFree_v2(address), "free");
	must(cuGraphExecDestroy(exec), "destroy");
	must(cuGraphDestroy(graph), "destroy");
}

static void *storm_in_thread(void *context)
{
	struct instantiate how = { .flags = AUTO_FREE_ON_LAUNCH };
	CUdeviceptr address, captured;
	void *own, *graph;
	CUgraphExec exec;

	must(cuCtxSetCurrent(context), "set current");
	must(cuStreamCreate(&own, 1), "stream");
	for (int i = 0; i < 500; i++) {
		must(cuStreamBeginCapture_v2(own, CAPTURE_THREAD_LOCAL), "begin");
		must(cuMemAllocAsync(&captured, 512, own), "alloc");
		must(cuStreamEndCapture(own, &graph), "end");
		must(cuGraphInstantiateWithParams(&exec, graph, &how), "instantiate");
		must(cuGraphDestroy(graph), "destroy");
		must(cuGraphLaunch(exec, own), "launch");
		must(cuGraphLaunch(exec, own), "launch"); /* @storm */
		must(cuGraphExecDestroy(exec), "destroy");
		must(cuMemFreeAsync(captured, own), "free");
		graph = by_hand(1024, &address);
		must(cuGraphInstantiateWithFlags(&exec, graph, 0), "instantiate");
		must(cuGraphLaunch(exec, own), "launch");
		must(cuMemFree_v2(address), "free");
		must(cuGraphExecDestroy(exec), "destroy");
		must(cuGraphDestroy(graph), "destroy");
	}
	return NULL;
}

static void storm(void)
{
	pthread_t threads[8];
	CUcontext context;

	must(cuDevicePrimaryCtxRetain(&context, 0), "retain");
	for (int i = 0; i < 8; i++)
		pthread_create(&threads[i], NULL, storm_in_thread, context);
	for (int i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
	leak(); /* @after_storm */
}

static long resident_pages(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	long pages = 0;

	if (!file || fscanf(file, "%*d %ld", &pages) != 1)
		exit(1);
	fclose(file);
	return pages;
}

static long pages_grown_by(int rounds)
{
	long before = resident_pages();

	for (int i = 0; i < rounds; i++)
		round_of(3000);
	return resident_pages() - before;
}

/* Without huge pages: at any time the kernel may replace the pages of a sparse mapping by one of
 * 2 MiB, and then the process has 500 pages more. Both halves must grow: the kernel counts the
 * pages of a thread late, up to 64 of them at once. */
static void loop(void)
{
	long first, second;

	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
	pages_grown_by(2000);
	first = pages_grown_by(10000);
	second = pages_grown_by(10000);
	if (first > 32 && second > 32)
		printf("grown: by %ld and %ld pages\n", first, second);
	else
		printf("grown: no\n");
}

/* It belongs to no context. */
static void reset(void)
{
	CUdeviceptr kept, address;
	CUcontext context;

	launch(instantiate(capture(2601, &kept), 0)); /* @kept */
	launch(instantiate(by_hand(2602, &address), 0)); /* @alloc_node */
	must(cuDevicePrimaryCtxReset_v2(0), "reset");
	printf("dead: %d\n", cuMemFree_v2(address)); /* @dead_free */
	must(cuDevicePrimaryCtxRetain(&context, 0), "retain");
	must(cuMemFree_v2(address), "free");
}

static const struct {
	const char *name;
	void (*tell)(void);
} stories[] = {
	{ "never", never }, { "leak", leak }, { "captures", captures }, { "nodes", nodes },
	{ "freed", freed }, { "inside", inside }, { "twice", twice }, { "early", early },
	{ "failing", failing }, { "destroyed", destroyed }, { "stuck", stuck },
	{ "invalidated", invalidated }, { "threads", threads }, { "modes", modes },
	{ "to-graph", to_graph }, { "child", child },
	{ "wrong", wrong }, { "wild", wild }, { "loop", loop }, { "reset", reset },
	{ "both-ways", both_ways }, { "storm", storm }, { "device", device },
	{ "updated", updated },
};

int main(int argc, char **argv)
{
	const char *story = argc > 1 ? argv[1] : "leak";

	begin();
	must(cuStreamCreate(&stream, 1), "stream");
	for (size_t i = 0; i < sizeof(stories) / sizeof(stories[0]); i++)
		if (strcmp(story, stories[i].name) == 0)
			stories[i].tell(); /* @main */
	if (strcmp(story, "auto") == 0)
		again(AUTO_FREE_ON_LAUNCH); /* @auto */
	if (strcmp(story, "refused") == 0)
		again(0); /* @refused */
	return 0;
}
