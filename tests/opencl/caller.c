/* SPDX-License-Identifier: MIT
 *
 * A library that is linked to one of several loaders (loader.c) and finds it by one of
 * two ways: by the link, or (-DBY_HANDLE) by dlsym on the loader's handle.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>

enum { LEAK_BYTES = 4097, PAIR_BYTES = 8192 };

#ifdef BY_HANDLE
#define CALL(name) ((__typeof__(&name))dlsym(loader, #name))
#else
#define CALL(name) name
#endif

__attribute__((noinline)) static void leak_here(void *loader, cl_context context)
{
	cl_int r = 77;

	(void)loader;
	CALL(clCreateBuffer)(context, 0, LEAK_BYTES, NULL, &r);
	printf("leak: %d\n", r);
	__asm__ volatile("" ::: "memory");
}

__attribute__((visibility("default"))) int cl_story(int argc, char **argv);
int cl_story(int argc, char **argv)
{
	void *loader = dlopen(LOADER, RTLD_NOW | RTLD_LOCAL);
	cl_image_desc desc = { .image_width = PAIR_BYTES };
	cl_platform_id platform;
	cl_context context;
	cl_device_id device;
	cl_int r = 77;
	cl_mem made;

	(void)argc, (void)argv;
	if (!loader)
		return printf("%s\n", dlerror());
	CALL(clGetPlatformIDs)(1, &platform, NULL);
	CALL(clGetDeviceIDs)(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL);
	context = CALL(clCreateContext)(NULL, 1, &device, NULL, NULL, &r);
	printf(LOADER " context: %d\n", r);
	leak_here(loader, context);
	made = CALL(clCreateImage)(context, 0, NULL, &desc, NULL, &r);
	printf("image: %d\n", r);
	if (made)
		printf("release: %d\n", CALL(clReleaseMemObject)(made));
	dlclose(loader);
	return 0;
}
