/* SPDX-License-Identifier: MIT
 *
 * OpenCL objects that are forgotten, retained once too often, cut from others, or released
 * once too often.
 */
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static cl_context context;

static void must(cl_int r, const char *what)
{
	if (r == CL_SUCCESS)
		return;
	printf("%s: %d\n", what, r);
	exit(1);
}

static void begin(void)
{
	cl_platform_id platform;
	cl_device_id device;
	cl_int r;

	must(clGetPlatformIDs(1, &platform, NULL), "clGetPlatformIDs");
	must(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL), "clGetDeviceIDs");
	context = clCreateContext(NULL, 1, &device, NULL, NULL, &r);
	must(r, "clCreateContext");
}

static cl_mem create(size_t bytes)
{
	cl_int r;
	cl_mem made = clCreateBuffer(context, CL_MEM_READ_WRITE, bytes, NULL, &r); /* @create */

	must(r, "clCreateBuffer");
	return made;
}

static cl_mem cut(cl_mem parent, size_t bytes)
{
	cl_buffer_region region = { 0, bytes };
	cl_int r;
	cl_buffer_create_type how = CL_BUFFER_CREATE_TYPE_REGION;
	cl_mem made = clCreateSubBuffer(parent, 0, how, &region, &r); /* @cut */

	must(r, "clCreateSubBuffer");
	return made;
}

static void release(cl_mem object)
{
	must(clReleaseMemObject(object), "clReleaseMemObject"); /* @release */
}

static void release_again(cl_mem object)
{
	printf("again: %d\n", clReleaseMemObject(object)); /* @again */
}

static void five(void)
{
	cl_mem forgotten = create(1000); /* @forgotten */
	cl_mem good = create(2000);
	cl_mem lost = create(3000); /* @lost */
	cl_mem retained = create(4000); /* @retained */
	cl_mem shared = create(5000);

	must(clRetainMemObject(retained), "retain");
	must(clRetainMemObject(shared), "retain");
	must(clRetainMemObject(shared), "retain");
	release(good);
	release(retained);
	for (int i = 0; i < 3; i++)
		release(shared);
	printf("%d of 5 lost\n", (forgotten != NULL) + (lost != NULL) + (retained != NULL));
}

static void clean(void)
{
	cl_mem a = create(1000), b = create(2000);

	must(clRetainMemObject(a), "retain");
	release(a);
	release(b);
	release(a);
}

static void sub_buffers(void)
{
	cl_mem parent = create(8192), other = create(16384), sub = cut(parent, 4096);

	release(sub);
	release(parent);
	sub = cut(other, 2048);
	release(other);
	release(sub);
}

static void lost_sub_buffer(void)
{
	cl_mem parent = create(8192);

	cut(parent, 4096); /* @main_cut */
	release(parent);
}

static void image(void)
{
	cl_image_format format = { CL_RGBA, CL_UNSIGNED_INT8 };
	cl_image_desc shape = {
		.image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = 64, .image_height = 32,
	};
	cl_int r;
	cl_mem made;

	made = clCreateImage(context, CL_MEM_READ_ONLY, &format, &shape, NULL, &r);
	must(r, "clCreateImage");
	release(made);
	clCreateImage(context, CL_MEM_READ_WRITE, &format, &shape, NULL, &r); /* @image */
	must(r, "clCreateImage");
}

static void make_pipe(void)
{
	cl_int r;

	clCreatePipe(context, CL_MEM_READ_WRITE, 16, 64, NULL, &r); /* @pipe */
	printf("pipe %s\n", r == CL_SUCCESS ? "made" : "not supported");
}

static void properties(void)
{
	cl_mem_properties none[] = { 0 };
	cl_int r;

	clCreateBufferWithProperties(context, none, 0, 7000, NULL, &r); /* @properties */
	printf("properties %s\n", r == CL_SUCCESS ? "made" : "not supported");
}

/* A sub-buffer keeps the parent's memory, so that this driver survives the second release;
 * the application's own count is at zero all the same. */
static void twice_held(void)
{
	cl_mem parent = create(8192); /* @parent */

	cut(parent, 4096); /* @holder */
	release(parent); /* @once */
	release_again(parent); /* @twice */
}

static void twice(void)
{
	cl_mem object = create(8192); /* @object */

	release(object); /* @object_once */
	release_again(object); /* @object_twice */
}

static void failed(void)
{
	cl_int r;

	clCreateBuffer(context, CL_MEM_READ_WRITE, 0, NULL, &r);
	printf("no bytes: %d\n", r);
	printf("nothing: %d\n", clReleaseMemObject(NULL));
}

static void in_child(void)
{
	create(100); /* @in_parent */
	fflush(stdout);
	if (fork() == 0) {
		create(200); /* @in_child */
		_exit(0);
	}
}

/* Shared virtual memory: one lost, one freed, one freed by a queue, one by its callback. */
static void CL_CALLBACK own_free(cl_command_queue queue, cl_uint count, void *pointers[],
				 void *unused)
{
	(void)queue, (void)unused;
	for (cl_uint i = 0; i < count; i++)
		clSVMFree(context, pointers[i]);
}

static void shared_virtual(void)
{
	cl_device_id device;
	cl_command_queue queue;
	void *shared[4];
	cl_int r;

	must(clGetContextInfo(context, CL_CONTEXT_DEVICES, sizeof(device), &device, NULL), "info");
	queue = clCreateCommandQueueWithProperties(context, device, NULL, &r);
	must(r, "queue");
	shared[0] = clSVMAlloc(context, CL_MEM_READ_WRITE, 5001, 0); /* @svm */
	for (int i = 1; i < 4; i++)
		shared[i] = clSVMAlloc(context, CL_MEM_READ_WRITE, 5001 + (size_t)i, 0);
	clSVMFree(context, shared[1]);
	clSVMFree(context, NULL);
	must(clEnqueueSVMFree(queue, 1, &shared[2], NULL, NULL, 0, NULL, NULL), "enqueue");
	must(clEnqueueSVMFree(queue, 1, &shared[3], own_free, NULL, 0, NULL, NULL), "enqueue");
	must(clFinish(queue), "finish");
	clReleaseCommandQueue(queue);
	printf("%d shared\n", shared[0] && shared[1] && shared[2] && shared[3]);
}

/* Three large buffers and a small one at the peak, all of which are released. */
static void peak(void)
{
	cl_mem large[3], small;

	for (int i = 0; i < 3; i++)
		large[i] = create(4000); /* @peak_large */
	small = create(4000); /* @peak_small */
	for (int i = 0; i < 3; i++)
		release(large[i]);
	release(small);
	release(create(100));
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*story)(void);
	} stories[] = {
		{ "five", five }, { "clean", clean }, { "sub", sub_buffers },
		{ "lost-sub", lost_sub_buffer }, { "image", image }, { "pipe", make_pipe },
		{ "properties", properties }, { "twice-held", twice_held }, { "twice", twice },
		{ "failed", failed }, { "child", in_child }, { "svm", shared_virtual },
		{ "peak", peak },
	};

	begin();
	for (size_t i = 0; i < sizeof(stories) / sizeof(stories[0]) && argc > 1; i++)
		if (strcmp(argv[1], stories[i].name) == 0)
			stories[i].story(); /* @main */
	return 0;
}
