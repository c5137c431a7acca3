/* SPDX-License-Identifier: MIT
 *
 * Every family of OpenCL memory by one route and with one fate; the cells are generated.
 * Built as a program without a loader, as one linked to it, and as a plugin linked to it.
 *
 * opencl ROUTE FATE FAMILY...      MATRIX_LOADER: the loader of routes that open one
 */
#include <dlfcn.h>

#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#include <CL/cl.h>

#include "matrix.h"

struct block {
	cl_mem object;
	void *pointer;
};

static cl_context context;
static cl_command_queue queue;
static cl_mem parent;
static const cl_mem_properties no_properties[] = { 0 };
static const cl_buffer_region region = { 0, 4096 };
static const cl_image_format format = { CL_RGBA, CL_UNSIGNED_INT8 };
static const cl_image_desc flat = { .image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = 64,
				    .image_height = 32 },
			   flat_too = { .image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = 64,
					.image_height = 31 };

typedef void CL_CALLBACK svm_free(cl_command_queue, cl_uint, void *[], void *);
static int in_queue(struct block *b, svm_free *callback);
static svm_free own_free;

#include "opencl_cells.h"

static void CL_CALLBACK own_free(cl_command_queue in, cl_uint count, void *pointers[], void *data)
{
	(void)in, (void)data;
	for (cl_uint i = 0; i < count; i++)
		C(clSVMFree)(context, pointers[i]);
}

/* Waits, so that the next cell begins when this one has ended. */
static int in_queue(struct block *b, svm_free *callback)
{
	int r = C(clEnqueueSVMFree)(queue, 1, &b->pointer, callback, NULL, 0, NULL, NULL);

	C(clFinish)(queue);
	return r;
}

static void by_handle(void *handle)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		calls[i].found = dlsym(handle, calls[i].symbol);
}

static void by_extension(void *loader, int of_platform)
{
	void *(*address)(const char *);
	void *(*for_platform)(cl_platform_id, const char *);
	cl_platform_id platform = NULL;

	by_handle(loader);
	C(clGetPlatformIDs)(1, &platform, NULL);
	*(void **)&address = dlsym(loader, "clGetExtensionFunctionAddress");
	*(void **)&for_platform = dlsym(loader, "clGetExtensionFunctionAddressForPlatform");
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		void *found = of_platform ? for_platform(platform, calls[i].symbol)
					  : address(calls[i].symbol);

		if (found)
			calls[i].found = found;
		else if (strncmp(calls[i].symbol, "clGet", 5) != 0)
			printf("%s: not given\n", calls[i].symbol);
	}
}

static void reach(const char *route)
{
	const char *path = getenv("MATRIX_LOADER");
	void *loader = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;

	if (strcmp(route, "linked") == 0 || strcmp(route, "plugin") == 0)
		for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
			calls[i].found = calls[i].linked;
	else if (strcmp(route, "default") == 0)
		by_handle(RTLD_DEFAULT);
	else if (loader && strncmp(route, "extension", 9) == 0)
		by_extension(loader, strcmp(route, "extension") != 0);
	else if (loader)
		by_handle(loader);
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		if (!calls[i].found) {
			printf("%s: not there\n", calls[i].symbol);
			exit(1);
		}
}

static void must(cl_int r, const char *what)
{
	if (r == CL_SUCCESS)
		return;
	printf("%s: %d\n", what, r);
	exit(1);
}

static void start(int from_type)
{
	cl_platform_id platform;
	cl_device_id device;
	cl_int r;

	must(C(clGetPlatformIDs)(1, &platform, NULL), "clGetPlatformIDs");
	must(C(clGetDeviceIDs)(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL), "clGetDeviceIDs");
	if (from_type) {
		cl_context_properties of[] = { CL_CONTEXT_PLATFORM,
					       (cl_context_properties)platform, 0 };

		context = C(clCreateContextFromType)(of, CL_DEVICE_TYPE_ALL, NULL, NULL, &r);
	} else {
		context = C(clCreateContext)(NULL, 1, &device, NULL, NULL, &r);
	}
	must(r, "context");
	queue = C(clCreateCommandQueueWithProperties)(context, device, NULL, &r);
	must(r, "queue");
}

#ifdef PLUGIN
int matrix_main(int argc, char **argv);
int matrix_main(int argc, char **argv)
#else
int main(int argc, char **argv)
#endif
{
	struct block b = { 0 };

	if (argc < 3)
		return 2;
	reach(argv[1]);
	start(strcmp(argv[1], "default") == 0 || strcmp(argv[1], "plugin") == 0);
	run_cells(needs, families, sizeof(families) / sizeof(families[0]), fate_named(argv[2]),
		  argv + 3, &b, sizeof(b));
	return 0;
}
