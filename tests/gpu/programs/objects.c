/* SPDX-License-Identifier: MIT
 *
 * Makes N objects of each kind that is cheap enough and leaves them; with a second argument it
 * destroys all but one of each kind. Prints for each kind how many were made and left, and what
 * they took of the device's memory. Links libcuda alone.
 */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX 1000
#define DEAR 4 /* contexts */

static const char image[] = ".version 7.0\n.target sm_52\n.address_size 64\n"
			    ".visible .entry nothing() { ret; }\n";
static CUdeviceptr memory;
static CUarray array;
static CUgraph whole;
static union {
	CUcontext context;
	CUgreenCtx green;
	CUstream stream;
	CUevent event;
	CUmodule module;
	CUlibrary loaded;
	CUtexObject texture;
	CUsurfObject surface;
	CUgraph graph;
	CUgraphExec exec;
	CUuserObject user;
} made[MAX];

static void must(CUresult r, const char *what)
{
	if (r == CUDA_SUCCESS)
		return;
	printf("%s: %d\n", what, r);
	exit(1);
}

static void ended(void *data)
{
	(void)data;
}

static CUresult make_context(int i)
{
	CUcontext current;
	CUresult r;

	cuCtxGetCurrent(&current);
#if CUDA_VERSION >= 13000
	r = cuCtxCreate(&made[i].context, NULL, 0, 0);
#else
	r = cuCtxCreate(&made[i].context, 0, 0);
#endif
	cuCtxSetCurrent(current);
	return r;
}

static CUresult make_green(int i)
{
	CUdevResource all;
	CUdevResourceDesc description;
	CUresult r = cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM);

	if (r == CUDA_SUCCESS)
		r = cuDevResourceGenerateDesc(&description, &all, 1);
	if (r == CUDA_SUCCESS)
		r = cuGreenCtxCreate(&made[i].green, description, 0, CU_GREEN_CTX_DEFAULT_STREAM);
	return r;
}

static CUresult make_texture(int i)
{
	CUDA_RESOURCE_DESC resource = { .resType = CU_RESOURCE_TYPE_LINEAR };
	CUDA_TEXTURE_DESC texels = { 0 };

	resource.res.linear.devPtr = memory;
	resource.res.linear.format = CU_AD_FORMAT_FLOAT;
	resource.res.linear.numChannels = 1;
	resource.res.linear.sizeInBytes = 4096;
	return cuTexObjectCreate(&made[i].texture, &resource, &texels, NULL);
}

static CUresult make_surface(int i)
{
	CUDA_RESOURCE_DESC resource = { .resType = CU_RESOURCE_TYPE_ARRAY };

	resource.res.array.hArray = array;
	return cuSurfObjectCreate(&made[i].surface, &resource);
}

#define MAKER(name, call) static CUresult make_##name(int i) { return call; }
#define ENDER(name, call) static CUresult end_##name(int i) { return call; }
MAKER(stream, cuStreamCreate(&made[i].stream, CU_STREAM_NON_BLOCKING))
MAKER(event, cuEventCreate(&made[i].event, CU_EVENT_DISABLE_TIMING))
MAKER(module, cuModuleLoadData(&made[i].module, image))
MAKER(library, cuLibraryLoadData(&made[i].loaded, image, NULL, NULL, 0, NULL, NULL, 0))
MAKER(graph, cuGraphCreate(&made[i].graph, 0))
MAKER(exec, cuGraphInstantiate(&made[i].exec, whole, 0))
MAKER(user, cuUserObjectCreate(&made[i].user, NULL, ended, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC))
ENDER(context, cuCtxDestroy(made[i].context))
ENDER(green, cuGreenCtxDestroy(made[i].green))
ENDER(stream, cuStreamDestroy(made[i].stream))
ENDER(event, cuEventDestroy(made[i].event))
ENDER(module, cuModuleUnload(made[i].module))
ENDER(library, cuLibraryUnload(made[i].loaded))
ENDER(texture, cuTexObjectDestroy(made[i].texture))
ENDER(surface, cuSurfObjectDestroy(made[i].surface))
ENDER(graph, cuGraphDestroy(made[i].graph))
ENDER(exec, cuGraphExecDestroy(made[i].exec))
ENDER(user, cuUserObjectRelease(made[i].user, 1))

static const struct kind {
	const char *name;
	CUresult (*make)(int i);
	CUresult (*end)(int i);
	int most;
} kinds[] = {
	{ "stream", make_stream, end_stream, MAX },
	{ "event", make_event, end_event, MAX },
	{ "module", make_module, end_module, MAX },
	{ "library", make_library, end_library, MAX },
	{ "texture", make_texture, end_texture, MAX },
	{ "surface", make_surface, end_surface, MAX },
	{ "graph", make_graph, end_graph, MAX },
	{ "graph-exec", make_exec, end_exec, MAX },
	{ "user-object", make_user, end_user, MAX },
	{ "green-context", make_green, end_green, DEAR },
	{ "context", make_context, end_context, DEAR },
};

static size_t used(void)
{
	size_t available, all;

	must(cuMemGetInfo(&available, &all), "cuMemGetInfo");
	return all - available;
}

int main(int argc, char **argv)
{
	int wanted = argc > 1 ? atoi(argv[1]) : MAX;
	CUDA_ARRAY3D_DESCRIPTOR stored = { 64, 64, 0, CU_AD_FORMAT_FLOAT, 1,
					   CUDA_ARRAY3D_SURFACE_LDST };
	CUgraphNode node;
	CUcontext primary;

	must(cuInit(0), "cuInit");
	must(cuDevicePrimaryCtxRetain(&primary, 0), "cuDevicePrimaryCtxRetain");
	must(cuCtxSetCurrent(primary), "cuCtxSetCurrent");
	must(cuMemAlloc(&memory, 4096), "cuMemAlloc");
	must(cuArray3DCreate(&array, &stored), "cuArray3DCreate");
	must(cuGraphCreate(&whole, 0), "cuGraphCreate");
	must(cuGraphAddEmptyNode(&node, whole, NULL, 0), "cuGraphAddEmptyNode");
	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		int most = wanted < kinds[k].most ? wanted : kinds[k].most, count = 0, left;
		size_t before = used(), after;
		CUresult r = CUDA_SUCCESS;

		while (count < most && (r = kinds[k].make(count)) == CUDA_SUCCESS)
			count++;
		after = used();
		left = count;
		while (argc > 2 && left > 1)
			must(kinds[k].end(--left), kinds[k].name);
		printf("%s %d %d bytes %lld result %d\n", kinds[k].name, count, left,
		       (long long)(after - before), r);
	}
	cuGraphDestroy(whole);
	cuArrayDestroy(array);
	cuMemFree(memory);
	fflush(stdout);
	return 0;
}
