/* SPDX-License-Identifier: MIT
 *
 * Memory that a program has not released when it ends, and memory that it releases while it ends:
 * ending STORY [k] [PLUGIN]. k: context and queue are not released either. Built with PLUGIN it is
 * a library whose destructor releases what the program handed to it. CL_ENDING=_exit: the program
 * ends without exit handlers.
 */
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl_icd.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BYTES (1 << 20)

static cl_mem kept;

#ifdef PLUGIN

void hand_over(cl_mem object);
void hand_over(cl_mem object)
{
	kept = object;
}

__attribute__((destructor)) static void release_by_plugin(void)
{
	clReleaseMemObject(kept);
}

#else

static cl_context context;
static cl_command_queue queue;
static int reports;

static void release_kept(void)
{
	if (kept)
		clReleaseMemObject(kept);
}

static void CL_CALLBACK count_reports(cl_mem object, void *data)
{
	(void)object, (void)data;
	reports++;
}

static void begin(void)
{
	cl_platform_id platform;
	cl_device_id device;
	cl_int error;

	if (clGetPlatformIDs(1, &platform, NULL) || clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1,
								   &device, NULL))
		exit(77);
	context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
	queue = clCreateCommandQueue(context, device, 0, &error);
}

static cl_mem create(void)
{
	return clCreateBuffer(context, 0, BYTES, NULL, NULL);
}

static void *map(cl_mem buffer)
{
	return clEnqueueMapBuffer(queue, buffer, 1, CL_MAP_WRITE, 0, 4096, 0, NULL, NULL, NULL);
}

static void leave_reference(void)
{
	cl_mem buffer = create();

	clRetainMemObject(buffer);
	clReleaseMemObject(buffer);
}

static void leave_image(void)
{
	const cl_image_format format = { CL_RGBA, CL_UNSIGNED_INT8 };
	const cl_image_desc image = { CL_MEM_OBJECT_IMAGE2D, 64, 64, 0, 0, 0, 0, 0, 0, { NULL } };

	clCreateImage(context, 0, &format, &image, NULL, NULL);
}

static void leave_part(void)
{
	const cl_buffer_region region = { 0, 4096 };
	cl_mem whole = create();

	clCreateSubBuffer(whole, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, NULL);
	clReleaseMemObject(whole);
}

static void leave_mapping(void)
{
	cl_mem buffer = create();

	map(buffer);
	clReleaseMemObject(buffer);
}

/* The commands may still wait when the program ends. */
static void unmap(void)
{
	for (int i = 0; i < 2; i++) {
		cl_mem buffer = create();

		clEnqueueUnmapMemObject(queue, buffer, map(buffer), 0, NULL, NULL);
		clReleaseMemObject(buffer);
	}
}

static cl_mem create_on_host(void)
{
	return clCreateBuffer(context, CL_MEM_ALLOC_HOST_PTR, 4 * BYTES, NULL, NULL);
}

/* The same with buffers of 4 MiB that are filled and copied. */
static void copy(void)
{
	cl_mem from = create_on_host(), to = create_on_host();
	char *bytes = clEnqueueMapBuffer(queue, from, 1, CL_MAP_WRITE_INVALIDATE_REGION, 0,
					 4 * BYTES, 0, NULL, NULL, NULL);

	memset(bytes, 1, 4 * BYTES);
	clEnqueueUnmapMemObject(queue, from, bytes, 0, NULL, NULL);
	clEnqueueCopyBuffer(queue, from, to, 0, 0, 4 * BYTES, 0, NULL, NULL);
	bytes = clEnqueueMapBuffer(queue, to, 1, CL_MAP_READ, 0, 4 * BYTES, 0, NULL, NULL, NULL);
	clEnqueueUnmapMemObject(queue, to, bytes, 0, NULL, NULL);
	clReleaseMemObject(to);
	clReleaseMemObject(from);
}

/* Releases a buffer by the implementation's own function, which gpuleak does not see. */
static void release_unseen(bool used)
{
	cl_mem buffer = create();

	if (used) /* for gpuleak that is a use */
		clSetMemObjectDestructorCallback(buffer, count_reports, NULL);
	(*(const cl_icd_dispatch *const *)buffer)->clReleaseMemObject(buffer);
}

/* Hands a buffer to a library that ends after the OpenCL implementation. */
static void hand_over(const char *path)
{
	void *plugin = dlopen(path, RTLD_NOW);
	void (*take)(cl_mem) = (void (*)(cl_mem))dlsym(plugin, "hand_over");

	take(create());
}

static void do_story(const char *story, const char *path)
{
	if (strcmp(story, "plain") == 0)
		create();
	else if (strcmp(story, "callback") == 0)
		clSetMemObjectDestructorCallback(create(), count_reports, NULL);
	else if (strcmp(story, "retain") == 0)
		leave_reference();
	else if (strcmp(story, "image") == 0)
		leave_image();
	else if (strcmp(story, "sub") == 0)
		leave_part();
	else if (strcmp(story, "map") == 0)
		leave_mapping();
	else if (strcmp(story, "unmap") == 0)
		unmap();
	else if (strcmp(story, "copy") == 0)
		copy();
	else if (strcmp(story, "unseen") == 0)
		release_unseen(true);
	else if (strcmp(story, "unused") == 0)
		release_unseen(false);
	else if (strcmp(story, "plugin") == 0)
		hand_over(path);
	else
		kept = create(); /* release_kept() releases it */
}

int main(int argc, char **argv)
{
	const char *how = getenv("CL_ENDING");
	bool keep = argc > 2 && strcmp(argv[2], "k") == 0;
	bool after = strcmp(argv[1], "after") == 0;

	if (after)
		atexit(release_kept); /* runs after the driver's handlers */
	begin();
	if (!after)
		atexit(release_kept);
	if (strcmp(argv[1], "closed") == 0)
		dlclose(dlopen(argv[argc - 1], RTLD_NOW));
	do_story(argv[1], argv[argc - 1]);
	if (!keep) {
		clReleaseCommandQueue(queue);
		clReleaseContext(context);
	}
	printf("main returns\n");
	fflush(stdout);
	if (how && strcmp(how, "_exit") == 0)
		_exit(0);
	return 0;
}

#endif
