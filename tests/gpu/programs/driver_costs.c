/* SPDX-License-Identifier: MIT
 *
 * Makes the driver take device memory by one cause after the other, and prints by how much the
 * device's used memory grew, as nvidia-smi reports it: "CAUSE MIB". The device must not be used by
 * others. Links libcuda alone.
 */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MODULES 8
#define GRAPHS 1000

static void must(CUresult r, const char *what)
{
	if (r == CUDA_SUCCESS)
		return;
	printf("%s: %d\n", what, r);
	exit(1);
}

static long used_mib(void)
{
	FILE *pipe = popen("nvidia-smi -i 0 --query-gpu=memory.used --format=csv,noheader,nounits",
			   "r");
	long mib = -1;

	if (!pipe || fscanf(pipe, "%ld", &mib) != 1)
		must(CUDA_ERROR_UNKNOWN, "nvidia-smi");
	pclose(pipe);
	return mib;
}

static void print_growth(const char *cause, long *before)
{
	long now = used_mib();

	printf("%s %ld\n", cause, now - *before);
	fflush(stdout);
	*before = now;
}

/* 32 MiB of data in each. */
static void load_modules(void)
{
	static const char ptx[] = ".version 8.0\n.target sm_80\n.address_size 64\n"
				  ".visible .global .align 4 .b8 data[33554432];\n"
				  ".visible .entry touch() { ret; }\n";
	CUmodule module;

	for (int i = 0; i < MODULES; i++)
		must(cuModuleLoadData(&module, ptx), "cuModuleLoadData");
}

static void instantiate(void)
{
	CUDA_MEMSET_NODE_PARAMS fill = { .elementSize = 4, .width = 1, .height = 1 };
	CUcontext context;
	CUgraphNode node;
	CUgraphExec exec;
	CUgraph graph;

	must(cuCtxGetCurrent(&context), "cuCtxGetCurrent");
	must(cuMemAlloc(&fill.dst, 4096), "cuMemAlloc");
	must(cuGraphCreate(&graph, 0), "cuGraphCreate");
	must(cuGraphAddMemsetNode(&node, graph, NULL, 0, &fill, context), "memset node");
	for (int i = 0; i < GRAPHS; i++)
		must(cuGraphInstantiateWithFlags(&exec, graph, 0), "cuGraphInstantiate");
}

static void create_context(CUcontext *context)
{
#if CUDA_VERSION >= 13000
	must(cuCtxCreate(context, NULL, 0, 0), "cuCtxCreate");
#else
	must(cuCtxCreate(context, 0, 0), "cuCtxCreate");
#endif
}

int main(void)
{
	CUcontext first, second;
	long used;

	must(cuInit(0), "cuInit");
	must(cuDevicePrimaryCtxRetain(&first, 0), "cuDevicePrimaryCtxRetain");
	must(cuCtxSetCurrent(first), "cuCtxSetCurrent");
	used = used_mib();
	load_modules();
	print_growth("module", &used);
	must(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 16384), "stack");
	print_growth("stack_limit", &used);
	must(cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, (size_t)256 << 20), "printf");
	print_growth("printf_limit", &used);
	must(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, (size_t)512 << 20), "heap");
	print_growth("malloc_heap_limit", &used);
	instantiate();
	print_growth("graph", &used);
	create_context(&second);
	print_growth("context", &used);
	sleep(1); /* for the last sample of NVML */
	return 0;
}
