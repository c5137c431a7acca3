/* SPDX-License-Identifier: MIT
 *
 * CUDA objects that are not memory, of every kind: left, destroyed, ended with their context,
 * destroyed twice, with several references, growing from step to step.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "cu_graph.h"
#include "gpuleak.h"

CUresult cuCtxPopCurrent_v2(CUcontext *context);
CUresult cuStreamDestroy_v2(void *stream);
CUresult cuStreamCreateWithPriority(void **stream, unsigned int flags, int priority);
CUresult cuGreenCtxStreamCreate(void **stream, CUgreenCtx green, unsigned int flags, int priority);
CUresult cuEventCreate(void **event, unsigned int flags);
CUresult cuEventDestroy_v2(void *event);
CUresult cuModuleLoadData(void **module, const void *image);
CUresult cuModuleUnload(void *module);
CUresult cuLibraryLoadData(void **library, const void *code, void *options, void **values,
			   unsigned int count, void *library_options, void **library_values,
			   unsigned int library_count);
CUresult cuLibraryUnload(void *library);
CUresult cuTexObjectCreate(unsigned long long *texture, const void *resource, const void *texels,
			   const void *view);
CUresult cuTexObjectDestroy(unsigned long long texture);
CUresult cuSurfObjectCreate(unsigned long long *surface, const void *resource);
CUresult cuSurfObjectDestroy(unsigned long long surface);
CUresult cuImportExternalSemaphore(void **semaphore, const void *what);
CUresult cuDestroyExternalSemaphore(void *semaphore);
CUresult cuUserObjectCreate(void **object, void *data, void (*destroy)(void *),
			    unsigned int references, unsigned int flags);
CUresult cuUserObjectRetain(void *object, unsigned int count);
CUresult cuUserObjectRelease(void *object, unsigned int count);
CUresult cuGraphRetainUserObject(CUgraph graph, void *object, unsigned int count,
				 unsigned int flags);
CUresult cuGetProcAddress_v2(const char *name, void **function, int version,
			     unsigned long long flags, int *status);

/* One of each kind. `what` stands for what the stand-in does not look at. */
static struct set {
	CUcontext context;
	CUgreenCtx green;
	void *stream, *low, *event, *module, *library, *semaphore, *user;
	unsigned long long texture, surface;
	CUgraph graph;
	CUgraphExec exec;
} sets[3];
static char what[256];
static const char *argument = "";

static void ended(void *data)
{
	(void)data;
}

static CUgreenCtx make_green(void)
{
	void *resources;
	CUgreenCtx green;

	must(cuDeviceGetDevResource(0, what, 1), "cuDeviceGetDevResource");
	must(cuDevResourceGenerateDesc(&resources, what, 1), "cuDevResourceGenerateDesc");
	must(cuGreenCtxCreate(&green, resources, 0, 1), "cuGreenCtxCreate"); /* @green */
	return green;
}

/* Whatever belongs to the current context. */
static void make_in_context(struct set *set)
{
	must(cuStreamCreate(&set->stream, 1), "stream");			/* @stream */
	must(cuStreamCreateWithPriority(&set->low, 1, 0), "stream");	/* @priority */
	must(cuEventCreate(&set->event, 0), "event");			/* @event */
	must(cuModuleLoadData(&set->module, what), "module");	/* @module */
	must(cuTexObjectCreate(&set->texture, what, what, NULL), "texture"); /* @texture */
	must(cuSurfObjectCreate(&set->surface, what), "surface"); /* @surface */
	must(cuImportExternalSemaphore(&set->semaphore, what), "semaphore"); /* @semaphore */
}

static CUresult load_library(void **library)
{
	return cuLibraryLoadData(library, what, NULL, NULL, 0, NULL, NULL, 0); /* @library */
}

static void make_without_context(struct set *set)
{
	must(load_library(&set->library), "library");			/* @loaded */
	must(cuUserObjectCreate(&set->user, NULL, ended, 1, 1), "user object"); /* @user */
	must(cuGraphCreate(&set->graph, 0), "graph");			/* @graph */
	must(cuGraphInstantiateWithFlags(&set->exec, set->graph, 0), "exec"); /* @exec */
}

static void make(struct set *set)
{
	make_in_context(set);	   /* @in */
	make_without_context(set); /* @without */
}

static void destroy_in_context(const struct set *set)
{
	must(cuStreamDestroy_v2(set->stream), "stream");
	must(cuStreamDestroy_v2(set->low), "stream");
	must(cuEventDestroy_v2(set->event), "event");
	must(cuModuleUnload(set->module), "module");
	must(cuTexObjectDestroy(set->texture), "texture");
	must(cuSurfObjectDestroy(set->surface), "surface");
	must(cuDestroyExternalSemaphore(set->semaphore), "semaphore");
}

static void destroy_without_context(const struct set *set)
{
	must(cuLibraryUnload(set->library), "library");
	must(cuUserObjectRelease(set->user, 1), "user object");
	must(cuGraphExecDestroy(set->exec), "exec");
	must(cuGraphDestroy(set->graph), "graph");
}

/* Makes three of each kind and destroys LESS of them. */
static void some(int less)
{
	begin(); /* @retained */
	for (int i = 0; i < 3; i++) {
		make(&sets[i]); /* @made */
		sets[i].green = make_green(); /* @made_green */
	}
	for (int i = 0; i < less; i++) {
		destroy_in_context(&sets[i]);
		destroy_without_context(&sets[i]);
		must(cuGreenCtxDestroy(sets[i].green), "green");
	}
	if (less == 3)
		must(cuDevicePrimaryCtxRelease_v2(0), "release");
}

static void left(void)
{
	some(1);
}

static void clean(void)
{
	some(3);
}

/* What is in a context ends with it, and a destroy that comes later is no error. */
static void context(void)
{
	must(cuInit(0), "cuInit");
	must(cuCtxCreate_v2(&sets[0].context, 0, 0), "context"); /* @context */
	must(cuCtxCreate_v2(&sets[1].context, 0, 0), "context"); /* @other */
	make_in_context(&sets[1]); /* @left_behind */
	must(cuCtxSetCurrent(sets[0].context), "current");
	make(&sets[0]); /* @with_context */
	must(cuCtxDestroy_v2(sets[0].context), "destroy");
	must(cuCtxSetCurrent(sets[1].context), "current");
	printf("late: %d %d\n", cuStreamDestroy_v2(sets[0].stream), cuModuleUnload(sets[0].module));
}

/* Textures of two contexts and surfaces have the same numbers. */
static void numbers(void)
{
	unsigned long long one, other, surface;

	must(cuInit(0), "cuInit");
	must(cuCtxCreate_v2(&sets[0].context, 0, 0), "context");
	must(cuTexObjectCreate(&one, what, what, NULL), "texture"); /* @first_texture */
	must(cuSurfObjectCreate(&surface, what), "surface");		 /* @only_surface */
	must(cuCtxCreate_v2(&sets[1].context, 0, 0), "context");
	must(cuTexObjectCreate(&other, what, what, NULL), "texture");
	printf("%llu %llu %llu\n", one, surface, other);
	must(cuTexObjectDestroy(other), "texture");
	must(cuCtxDestroy_v2(sets[1].context), "destroy");
}

/* The driver refuses the second one of each. */
static void twice(void)
{
	struct set *set = &sets[0];

	begin();
	make(set); /* @twice */
	destroy_in_context(set); /* @first */
	destroy_without_context(set);
	printf("%d", cuStreamDestroy_v2(set->stream)); /* @second_stream */
	printf(" %d", cuEventDestroy_v2(set->event)); /* @second_event */
	printf(" %d", cuModuleUnload(set->module)); /* @second_module */
	printf(" %d\n", cuTexObjectDestroy(set->texture)); /* @second_texture */
	printf("%d %d\n", cuStreamDestroy_v2(what), cuEventDestroy_v2(what));
}

static void references(void)
{
	CUcontext context;
	void *object, *given;
	CUgraph graph;

	begin(); /* @first_retain */
	must(cuDevicePrimaryCtxRetain(&context, 0), "retain"); /* @second_retain */
	must(cuDevicePrimaryCtxRetain(&context, 0), "retain");
	must(cuDevicePrimaryCtxRelease_v2(0), "release");
	must(cuUserObjectCreate(&object, NULL, ended, 3, 1), "user object"); /* @three */
	must(cuUserObjectRetain(object, 4), "retain");
	must(cuUserObjectRelease(object, 5), "release");
	must(cuUserObjectCreate(&given, NULL, ended, 2, 1), "user object");
	must(cuGraphCreate(&graph, 0), "graph"); /* @keeper */
	must(cuGraphRetainUserObject(graph, given, 1, 0), "graph retains");
	must(cuGraphRetainUserObject(graph, given, 2, 1), "graph takes over");
	printf("%d\n", cuUserObjectRelease(object, 7));
}

/* An attached context ends with its last detach. The streams of a green context do not end with it:
 * cuda.h has the application destroy them before. */
static void attached(void)
{
	CUcontext kept, ending, same;
	CUgreenCtx green;
	void *stream;

	must(cuInit(0), "cuInit");
	must(cuCtxCreate_v2(&kept, 0, 0), "context"); /* @kept */
	must(cuCtxAttach(&same, 0), "attach");
	must(cuCtxDetach(same), "detach");
	must(cuCtxCreate_v2(&ending, 0, 0), "context");
	must(cuCtxDetach(ending), "detach");
	green = make_green();
	must(cuGreenCtxStreamCreate(&stream, green, 1, 0), "stream"); /* @green_stream */
	must(cuGreenCtxDestroy(green), "green");
}

/* Graphs from captures, clones and children. */
static void graphs(void)
{
	struct node child = { .type = NODE_GRAPH };
	CUgraph graph, clone, moved;
	CUgraphNode node;
	void *stream, *captured, *same;

	begin();
	must(cuStreamCreate(&stream, 1), "stream");
	must(cuStreamBeginCapture_v2(stream, CAPTURE_GLOBAL), "begin");
	must(cuStreamEndCapture(stream, &captured), "end"); /* @captured */
	must(cuGraphCreate(&graph, 0), "graph"); /* @parent */
	must(cuStreamBeginCaptureToGraph(stream, graph, NULL, NULL, 0, CAPTURE_GLOBAL), "begin");
	must(cuStreamEndCapture(stream, &same), "end");
	must(cuGraphClone(&clone, graph), "clone"); /* @clone */
	must(cuGraphCreate(&moved, 0), "graph");
	child.child.graph = moved;
	child.child.ownership = 1;
	must(cuGraphAddNode(&node, graph, NULL, 0, &child), "child");
	must(cuStreamDestroy_v2(stream), "stream");
	printf("%d\n", same == graph);
}

/* Makes and destroys events by the functions that cuGetProcAddress returns, as cudart does. */
static void looked_up(void)
{
	CUresult (*create)(void **, unsigned int), (*destroy)(void *);
	void *first, *second;
	int status;

	begin();
	must(cuGetProcAddress_v2("cuEventCreate", (void **)&create, 12000, 0, &status), "lookup");
	must(cuGetProcAddress_v2("cuEventDestroy", (void **)&destroy, 12000, 0, &status), "lookup");
	must(create(&first, 0), "event");
	must(create(&second, 0), "event"); /* @looked_up */
	must(destroy(first), "event");
}

/* What a runtime loads on its own is listed, but the first line does not name it. */
static void runtime(void)
{
	void *handle = dlopen(argument, RTLD_NOW);
	void (*starts)(void) = handle ? (void (*)(void))dlsym(handle, "runtime_starts") : NULL;

	must(starts == NULL, argument);
	begin();
	starts();
}

/* The library names the call that made a handle, also if the handle is no memory. */
static void who(void)
{
	struct gpuleak_block block = { .size = sizeof(block) };
	void *stream, *event;

	begin();
	must(cuStreamCreate(&stream, 1), "stream");
	must(cuEventCreate(&event, 0), "event");
	must(cuStreamDestroy_v2(stream), "stream");
	if (!gpuleak_who)
		return;
	printf("%d", gpuleak_who((uintptr_t)event, &block));
	printf(" %s %s %d %d\n", block.api, block.kind, (block.flags & GPULEAK_BLOCK_OBJECT) != 0,
	       gpuleak_who((uintptr_t)stream, &block));
}

/* A service that leaves a stream now and then, and marks no step. */
static void serves(void)
{
	void *stream;

	begin();
	for (int i = 0; i < 60; i++) {
		must(cuStreamCreate(&stream, 1), "stream"); /* @serving */
		usleep(50000);
	}
}

/* Each step leaves two streams and pairs of events; a cache of modules fills up. */
static void grows(void)
{
	CUdeviceptr address;
	void *object;

	begin();
	for (int step = 1; step <= 6; step++) {
		for (int i = 0; i < 2; i++)
			must(cuStreamCreate(&object, 1), "stream"); /* @growing */
		must(cuEventCreate(&object, 0), "event");
		must(cuEventDestroy_v2(object), "event");
		if (step < 3)
			must(cuModuleLoadData(&object, what), "module");
		if (step == 1)
			must(cuMemAlloc_v2(&address, 4096), "memory");
		if (gpuleak_step) /* without the library there is no such function */
			gpuleak_step(NULL);
	}
	must(cuMemFree_v2(address), "memory");
}

/* Leaves an event at each of its frames; and as many at its start, for as long as it runs. */
static void frames(void)
{
	void *event;

	begin();
	for (int i = 0; i < 200; i++) {
		must(cuEventCreate(&event, 0), "event"); /* @frame */
		usleep(4000);
	}
}

static void at_first(void)
{
	void *event;

	begin();
	for (int i = 0; i < 200; i++)
		must(cuEventCreate(&event, 0), "event");
	usleep(800000);
}

static void many_contexts(void)
{
	CUcontext context;

	must(cuInit(0), "init");
	for (int i = 0; i < 3; i++) {
		must(cuCtxCreate_v2(&context, 0, 0), "context"); /* @contexts */
		must(cuCtxPopCurrent_v2(&context), "pop");
	}
	for (int i = 0; i < 4; i++)
		must(cuDevicePrimaryCtxRetain(&context, 0), "retain"); /* @retains */
	must(cuDevicePrimaryCtxRelease_v2(0), "release");
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} stories[] = {
		{ "left", left }, { "clean", clean }, { "context", context },
		{ "numbers", numbers }, { "twice", twice }, { "references", references },
		{ "graphs", graphs }, { "looked-up", looked_up }, { "grows", grows },
		{ "attached", attached }, { "serves", serves },
		{ "who", who }, { "runtime", runtime }, { "frames", frames },
		{ "at-first", at_first }, { "contexts", many_contexts },
	};

	if (argc > 2)
		argument = argv[2];
	for (size_t i = 0; argc > 1 && i < sizeof(stories) / sizeof(stories[0]); i++)
		if (strcmp(argv[1], stories[i].name) == 0)
			stories[i].run(); /* @main */
	return 0;
}
