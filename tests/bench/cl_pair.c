/* SPDX-License-Identifier: MIT
 *
 * Cost of OpenCL calls in ns, on the first device:
 * cl_pair [pair|handed|use|shared|argument|enqueue|event]
 *   pair      clCreateBuffer, clReleaseMemObject
 *   handed    the same, released by another thread; up to 16 on their way
 *   use       the same of MIB MiB (second argument: how often; third: MIB, 4), filled between
 *             them and waited for
 *   shared    the same with a retain and a release between them
 *   argument  clSetKernelArg with a buffer
 *   enqueue   clEnqueueMarkerWithWaitList without an event (a clFinish for every 100)
 *   event     the same with an event, released
 */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static cl_context context;
static cl_device_id device;
static cl_command_queue queue;
static cl_kernel kernel;
static cl_mem buffer;

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void must(cl_int r)
{
	if (r != CL_SUCCESS) {
		fprintf(stderr, "OpenCL: %d\n", r);
		exit(1);
	}
}

static void begin(void)
{
	cl_platform_id platform;
	cl_int r;

	must(clGetPlatformIDs(1, &platform, NULL));
	must(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL));
	context = clCreateContext(NULL, 1, &device, NULL, NULL, &r);
	must(r);
	queue = clCreateCommandQueue(context, device, 0, &r);
	must(r);
	buffer = clCreateBuffer(context, 0, 4096, NULL, &r);
	must(r);
}

static void make_kernel(void)
{
	static const char *source = "kernel void k(global int *p) { p[0] = 1; }";
	cl_int r;
	cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, &r);

	must(r);
	must(clBuildProgram(program, 0, NULL, NULL, NULL, NULL));
	kernel = clCreateKernel(program, "k", &r);
	must(r);
}

static void pair(int shared)
{
	cl_int r;
	cl_mem made = clCreateBuffer(context, CL_MEM_READ_WRITE, 4096, NULL, &r);

	must(r);
	if (shared) {
		must(clRetainMemObject(made));
		must(clReleaseMemObject(made));
	}
	must(clReleaseMemObject(made));
}

/* From one thread to another: what was made, and how much of it was released. */
#define ON_THEIR_WAY 16
static cl_mem handed[ON_THEIR_WAY];
static _Atomic long made_count, released_count;

static void *release_handed(void *count)
{
	for (long i = 0; i < *(const long *)count; i++) {
		while (atomic_load(&made_count) == i)
			sched_yield();
		must(clReleaseMemObject(handed[i % ON_THEIR_WAY]));
		atomic_store(&released_count, i + 1);
	}
	return NULL;
}

static void hand_over(long i)
{
	cl_int r;

	while (i - atomic_load(&released_count) >= ON_THEIR_WAY)
		sched_yield();
	handed[i % ON_THEIR_WAY] = clCreateBuffer(context, CL_MEM_READ_WRITE, 4096, NULL, &r);
	must(r);
	atomic_store(&made_count, i + 1);
}

static void use(size_t bytes)
{
	static const cl_uint zero;
	cl_int r;
	cl_mem made = clCreateBuffer(context, CL_MEM_READ_WRITE, bytes, NULL, &r);

	must(r);
	must(clEnqueueFillBuffer(queue, made, &zero, sizeof(zero), 0, bytes, 0, NULL, NULL));
	must(clFinish(queue));
	must(clReleaseMemObject(made));
}

static void enqueue(int with_event, long i)
{
	cl_event event;

	must(clEnqueueMarkerWithWaitList(queue, 0, NULL, with_event ? &event : NULL));
	if (with_event)
		must(clReleaseEvent(event));
	if (i % 100 == 99)
		must(clFinish(queue));
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "pair";
	long count = argc > 2 ? atol(argv[2]) : 100000;
	size_t bytes = (argc > 3 ? (size_t)atol(argv[3]) : 4) << 20;
	long all = count + count / 10;
	pthread_t other;
	double start = 0;

	begin();
	if (strcmp(what, "argument") == 0) /* a compiler runs many instructions */
		make_kernel();
	if (strcmp(what, "handed") == 0)
		pthread_create(&other, NULL, release_handed, &all);
	for (long i = -count / 10; i < count; i++) {
		if (i == 0)
			start = now_ns();
		if (strcmp(what, "argument") == 0)
			must(clSetKernelArg(kernel, 0, sizeof(cl_mem), &buffer));
		else if (strcmp(what, "handed") == 0)
			hand_over(i + count / 10);
		else if (strcmp(what, "use") == 0)
			use(bytes);
		else if (strcmp(what, "enqueue") == 0 || strcmp(what, "event") == 0)
			enqueue(what[1] == 'v', i + count);
		else
			pair(strcmp(what, "shared") == 0);
	}
	if (strcmp(what, "handed") == 0)
		pthread_join(other, NULL);
	printf("%.0f\n", (now_ns() - start) / (double)count);
	return 0;
}
