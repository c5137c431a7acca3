/* SPDX-License-Identifier: MIT
 *
 * Prints what both resolvers answer to good and bad questions: result, status, whether the
 * pointer was written, and for calls that nobody intercepts which driver function it is.
 * The output must be the same with and without a tracer.
 */
#include <dlfcn.h>
#include <string.h>

#include "cu.h"

static resolve4 *four;
static resolve5 *five;
static int poison;

static const char *what_is(void *pointer, int intercepted)
{
	Dl_info info;

	if (pointer == &poison)
		return "untouched";
	if (!pointer)
		return "NULL";
	if (intercepted)
		return "a function";
	if (!dladdr(pointer, &info) || !info.dli_sname || !strstr(info.dli_fname, "libcuda.so"))
		return "not the driver's";
	return info.dli_sname;
}

static void ask(const char *name, int version, uint64_t flags, int intercepted)
{
	void *pointer = &poison;
	int status = 77, r;

	r = four(name, &pointer, version, flags);
	printf("4 %s %d %d: %d, %s\n", name ? name : "NULL", version, (int)flags, r,
	       what_is(pointer, intercepted));
	pointer = &poison;
	r = five(name, &pointer, version, flags, &status);
	printf("5 %s %d %d: %d, %s, status %d\n", name ? name : "NULL", version, (int)flags, r,
	       what_is(pointer, intercepted), status);
	pointer = &poison;
	r = five(name, &pointer, version, flags, NULL);
	printf("5 without status: %d, %s\n", r, what_is(pointer, intercepted));
}

/* Which ABI a pointer has can be seen from what it answers. */
static void two_versions(void)
{
	CUdeviceptr wide = ~0ull;
	void *old_alloc = NULL, *new_alloc = NULL;

	must(five("cuMemAlloc", &old_alloc, 2000, 0, NULL), "2000");
	must(five("cuMemAlloc", &new_alloc, 3020, 0, NULL), "3020");
	printf("cuMemAlloc of 2000 and 3020 %s\n", old_alloc == new_alloc ? "equal" : "differ");
	must(((CUresult(*)(CUdeviceptr *, size_t))new_alloc)(&wide, 512), "alloc");
	printf("upper half %s\n", wide >> 32 == 0xffffffff ? "kept" : "written");
	wide = ~0ull;
	must(((CUresult(*)(CUdeviceptr *, unsigned int))old_alloc)(&wide, 512), "alloc");
	printf("upper half %s\n", wide >> 32 == 0xffffffff ? "kept" : "written");
}

/* Five arguments and six: the fifth is a pointer to one, a number to the other. */
static void two_nodes(void)
{
	long long node[32] = { 5 }; /* CUgraphNodeParams of an empty node */
	void *create = NULL, *old_add = NULL, *new_add = NULL, *graph, *made;

	must(five("cuGraphCreate", &create, 10000, 0, NULL), "10000");
	must(five("cuGraphAddNode", &old_add, 12020, 0, NULL), "12020");
	must(five("cuGraphAddNode", &new_add, 12030, 0, NULL), "12030");
	printf("cuGraphAddNode of 12020 and 12030 %s\n", old_add == new_add ? "equal" : "differ");
	must(((CUresult(*)(void **, unsigned int))create)(&graph, 0), "create");
	printf("%d\n", ((CUresult(*)(void **, void *, void *, size_t, void *))old_add)(
			       &made, graph, NULL, 0, node));
	printf("%d\n", ((CUresult(*)(void **, void *, void *, void *, size_t, void *))new_add)(
			       &made, graph, NULL, NULL, 0, node));
}

int main(void)
{
	static const char *const ours[] = { "cuMemAlloc", "cuMemFree", "cuMemAllocPitch",
					    "cuMemAllocManaged", "cuInit", "cuGetProcAddress",
					    "cuCtxDestroy", "cuDevicePrimaryCtxReset",
					    "cuMemAllocAsync", "cuMemFreeAsync",
					    "cuMemHostRegister", "cuArrayCreate" };
	static const int versions[] = { -1, 0, 2000, 3010, 3020, 4000, 6000, 7000, 10020, 11000,
					11030, 12000, 13000, 13010, 99000 };
	void *handle = dlopen("libcuda.so.1", RTLD_NOW);
	struct driver driver = LINKED_DRIVER;

	need(handle, "libcuda.so.1");
	*(void **)&four = dlsym(handle, "cuGetProcAddress");
	*(void **)&five = dlsym(handle, "cuGetProcAddress_v2");
	start(&driver);
	for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
		for (size_t v = 0; v < sizeof(versions) / sizeof(versions[0]); v++)
			for (uint64_t flags = 0; flags < 4; flags++)
				ask(ours[i], versions[v], flags, 1);
	ask("cuIpcOpenMemHandle", 4010, 0, 1);
	ask("cuIpcOpenMemHandle", 11000, 0, 1);
	ask("cuGraphAddNode", 12020, 0, 1);
	ask("cuGraphAddNode", 12030, 0, 1);
	ask("cuGraphKernelNodeGetParams", 10000, 0, 0);
	ask("cuGraphKernelNodeGetParams", 12000, 0, 0);
	for (uint64_t flags = 0; flags < 4; flags++)
		ask("cuMemsetD8Async", 7000, flags, 0);
	ask("cuMemAlloc_v2", 12000, 0, 0); /* an exported name is no base name */
	ask("cuNoSuchCall", 12000, 0, 0);
	ask("", 0, 0, 0);
	ask(NULL, 12000, 0, 0);
	printf("%d\n", four("cuMemAlloc", NULL, 12000, 0));
	printf("%d\n", five("cuMemAlloc", NULL, 12000, 0, NULL));
	two_versions();
	two_nodes();
	return 0;
}
