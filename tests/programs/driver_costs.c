/* SPDX-License-Identifier: MIT
 *
 * Calls after which the driver itself uses more memory of the device. How much, STANDIN_COSTS sets.
 */
#include <pthread.h>
#include <string.h>

#include "cu.h"
#include "cu_graph.h"

typedef struct CUmod_st *CUmodule;
CUresult cuModuleLoadData(CUmodule *module, const void *image);
CUresult cuModuleUnload(CUmodule module);
CUresult cuCtxSetLimit(int limit, size_t value);
typedef struct CUfunc_st *CUfunction;
CUresult cuStreamDestroy_v2(void *stream);
CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name);
CUresult cuKernelGetFunction(CUfunction *function, void *kernel);
CUresult cuLaunchKernel(CUfunction f, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
			unsigned int block_x, unsigned int block_y, unsigned int block_z,
			unsigned int shared, void *stream, void **parameters, void **extra);

static CUmodule load(void)
{
	CUmodule module;

	must(cuModuleLoadData(&module, "image"), "load"); /* @load */
	return module;
}

static void load_captured(void)
{
	void *stream, *graph;

	must(cuStreamCreate(&stream, 0), "stream");
	must(cuStreamBeginCapture_v2(stream, 2), "capture"); /* relaxed */
	load(); /* @captured */
	must(cuStreamEndCapture(stream, &graph), "end");
}

static void instantiate(void)
{
	CUgraphExec exec;
	CUgraph graph;

	must(cuGraphCreate(&graph, 0), "graph");
	for (int i = 0; i < 2; i++)
		must(cuGraphInstantiateWithFlags(&exec, graph, 0), "exec"); /* @exec */
}

static void *load_many(void *context)
{
	must(cuCtxSetCurrent(context), "current");
	for (int i = 0; i < 300; i++)
		load();
	return NULL;
}

static void load_in_threads(CUcontext context)
{
	pthread_t threads[4];

	for (int i = 0; i < 4; i++)
		if (pthread_create(&threads[i], NULL, load_many, context))
			exit(5);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
}

static void launch(const char *kernel, CUmodule module)
{
	CUfunction function;

	must(cuModuleGetFunction(&function, module, kernel), "function");
	must(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), /* @launch */
	     "launch");
}

static void use_kernels(CUmodule module)
{
	CUfunction function;
	void *stream;

	must(cuModuleGetFunction(&function, module, "gl_library_code"), "function");
	for (int i = 0; i < 2; i++)
		must(cuKernelGetFunction(&function, function), "kernel"); /* @kernel */
	for (int i = 0; i < 3; i++)
		must(cuStreamCreate(&stream, 0), "stream"); /* @stream */
	must(cuStreamDestroy_v2(stream), "destroy");
	for (int i = 0; i < 2; i++) {
		launch("other", module);
		launch("gl_code", module); /* @code */
		launch("gl_local", module); /* @local */
	}
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "all";
	CUcontext first, second;
	CUmodule module = NULL;

	must(cuInit(0), "init");
	must(cuDevicePrimaryCtxRetain(&first, 0), "retain"); /* @retain */
	must(cuCtxSetCurrent(first), "current");
	must(cuCtxCreate_v2(&second, 0, 0), "create"); /* @create */
	for (int i = 0; i < 3; i++)
		module = load(); /* @modules */
	if (!strcmp(mode, "unload"))
		must(cuModuleUnload(module), "unload");
	if (!strcmp(mode, "kernels"))
		use_kernels(module); /* @kernels */
	if (!strcmp(mode, "threads"))
		load_in_threads(second);
	if (!strcmp(mode, "captured"))
		load_captured(); /* @main_captured */
	must(cuCtxSetLimit(0, 2048), "stack"); /* @stack */
	must(cuCtxSetLimit(1, 5 << 20), "printf"); /* @printf */
	must(cuCtxSetLimit(2, 64 << 20), "heap"); /* @heap */
	instantiate(); /* @graphs */
	return 0;
}
