/* SPDX-License-Identifier: MIT
 *
 * The calls that walks.py follows: each a hundred times to be warm, then once more while
 * walk_trace.c records. Arguments: "cuda ALLOC-FILE FREE-FILE" or "opencl RELEASE-FILE".
 */
#define CL_TARGET_OPENCL_VERSION 120
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include <CL/cl.h>

static void (*walk_begin)(void);
static void (*walk_end)(const char *path);

static void *symbol(void *handle, const char *name)
{
	void *found = dlsym(handle, name);

	if (!found)
		abort();
	return found;
}

static void cuda(char **paths)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW), *context;
	int (*init)(unsigned int) = symbol(driver, "cuInit");
	int (*create)(void **, unsigned int, int) = symbol(driver, "cuCtxCreate_v2");
	int (*allocate)(unsigned long long *, size_t) = symbol(driver, "cuMemAlloc_v2");
	int (*release)(unsigned long long) = symbol(driver, "cuMemFree_v2");
	unsigned long long block;

	init(0);
	create(&context, 0, 0);
	for (int i = 0; i <= 100; i++) {
		if (i == 100)
			walk_begin();
		allocate(&block, 65536);
		if (i == 100) {
			walk_end(paths[0]);
			walk_begin();
		}
		release(block);
		if (i == 100)
			walk_end(paths[1]);
	}
}

static void opencl(char **paths)
{
	cl_platform_id platform;
	cl_device_id device;
	cl_context context;

	clGetPlatformIDs(1, &platform, NULL);
	clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL);
	context = clCreateContext(NULL, 1, &device, NULL, NULL, NULL);
	for (int i = 0; i <= 100; i++) {
		cl_mem buffer = clCreateBuffer(context, CL_MEM_READ_WRITE, 65536, NULL, NULL);

		if (i == 100)
			walk_begin();
		clReleaseMemObject(buffer);
		if (i == 100)
			walk_end(paths[0]);
	}
}

int main(int argc, char **argv)
{
	walk_begin = (void (*)(void))symbol(RTLD_DEFAULT, "walk_begin");
	walk_end = (void (*)(const char *))symbol(RTLD_DEFAULT, "walk_end");
	if (argc > 3 && strcmp(argv[1], "cuda") == 0)
		cuda(argv + 2);
	else if (argc > 2)
		opencl(argv + 2);
	return 0;
}
