/* SPDX-License-Identifier: MIT
 *
 * Kernels that write behind a buffer or after its release, each with a clean twin. Prints what the
 * clean twins compute, which a guard must not change.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

#include "cl.h"

#define BYTES 1000

static cl_command_queue queue;
static cl_kernel kernel;

static void build(void)
{
	static const char *source =
		"kernel void put(global uchar *p, ulong from, ulong bytes, uchar value)"
		"{ for (ulong i = 0; i < bytes; i++) p[from + i] = value; }";
	cl_program program;
	cl_int r;

	queue = clCreateCommandQueue(context, device, 0, &r);
	must(r, "clCreateCommandQueue");
	program = clCreateProgramWithSource(context, 1, &source, NULL, &r);
	must(r, "clCreateProgramWithSource");
	must(clBuildProgram(program, 1, &device, "", NULL, NULL), "clBuildProgram");
	kernel = clCreateKernel(program, "put", &r);
	must(r, "clCreateKernel");
	must(clReleaseProgram(program), "clReleaseProgram");
}

/* The kernel writes BYTES from FROM on. */
static void launch(cl_mem buffer, cl_ulong from, cl_ulong bytes)
{
	static const size_t one = 1;
	cl_uchar value = 7;

	must(clSetKernelArg(kernel, 0, sizeof(buffer), &buffer), "clSetKernelArg");
	must(clSetKernelArg(kernel, 1, sizeof(from), &from), "clSetKernelArg");
	must(clSetKernelArg(kernel, 2, sizeof(bytes), &bytes), "clSetKernelArg");
	must(clSetKernelArg(kernel, 3, sizeof(value), &value), "clSetKernelArg");
	must(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &one, NULL, 0, NULL, /* @launch */
				    NULL), "launch");
}

static void finish(void)
{
	must(clFinish(queue), "clFinish"); /* @finish */
}

static void behind(cl_ulong from, cl_ulong bytes)
{
	cl_mem buffer = create(BYTES);

	launch(buffer, from, bytes);
	finish();
	release(buffer);
}

static void behind_1(void) { behind(BYTES, 1); }
static void behind_16(void) { behind(BYTES - 4, 20); }
static void behind_256(void) { behind(BYTES + 255, 1); }
static void behind_clean(void) { behind(0, BYTES); }

/* A check without an error comes after the first launch. */
static void twice(void)
{
	cl_mem buffer = create(BYTES);

	launch(buffer, 0, BYTES);
	finish();
	launch(buffer, BYTES, 1);
	finish();
	release(buffer);
}

/* Found at the release, because nothing waits before it. */
static void at_release(void)
{
	cl_mem buffer = create(BYTES);
	unsigned char seen;

	launch(buffer, BYTES, 1);
	must(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, 1, &seen, 0, NULL, NULL), "read");
	release(buffer); /* @release_bad */
}

static void at_exit(void)
{
	launch(create(BYTES), BYTES, 1);
}

static void after_release(void)
{
	cl_mem buffer = create(BYTES);

	launch(buffer, 0, 1);
	finish();
	release(buffer); /* @first_release */
	launch(buffer, 10, 4);
	finish();
}

/* Commands that were enqueued before the release are correct. */
static void released_early(void)
{
	cl_mem from = create(BYTES), to = create(BYTES);
	unsigned char seen[BYTES];
	unsigned int sum = 0;

	launch(from, 0, BYTES);
	must(clEnqueueCopyBuffer(queue, from, to, 0, 0, BYTES, 0, NULL, NULL), "copy");
	release(from);
	must(clEnqueueReadBuffer(queue, to, CL_TRUE, 0, BYTES, seen, 0, NULL, NULL), "read");
	release(to);
	for (int i = 0; i < BYTES; i++)
		sum += seen[i];
	printf("sum %u\n", sum);
}

static void copied(void)
{
	unsigned char given[BYTES], seen[BYTES];
	cl_int r;
	cl_mem buffer;
	size_t size = 0;

	for (int i = 0; i < BYTES; i++)
		given[i] = (unsigned char)(i * 7);
	buffer = clCreateBuffer(context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR |
				CL_MEM_HOST_NO_ACCESS, BYTES, given, &r);
	must(r, "clCreateBuffer");
	must(clGetMemObjectInfo(buffer, CL_MEM_SIZE, sizeof(size), &size, NULL), "size");
	release(buffer);
	buffer = clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, BYTES, given, &r);
	must(r, "clCreateBuffer");
	must(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, BYTES, seen, 0, NULL, NULL), "read");
	printf("size %zu, same %d\n", size, memcmp(given, seen, BYTES) == 0);
	release(buffer);
}

/* A part of a buffer keeps its memory alive, also after the buffer's release. */
static void parts(void)
{
	cl_buffer_region region = { 0, BYTES / 2 };
	cl_mem buffer = create(BYTES), part;
	unsigned char seen = 0;
	cl_int r;

	part = clCreateSubBuffer(buffer, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &r);
	must(r, "clCreateSubBuffer");
	retain(buffer);
	release(buffer);
	launch(part, 0, BYTES / 2);
	release(buffer);
	must(clEnqueueReadBuffer(queue, part, CL_TRUE, 5, 1, &seen, 0, NULL, NULL), "read");
	printf("seen %d\n", seen);
	release(part);
}

static void CL_CALLBACK destroyed(cl_mem object, void *data)
{
	(void)object;
	*(int *)data = 1;
}

static void callback(void)
{
	cl_mem buffer = create(BYTES);
	int called = 0;

	must(clSetMemObjectDestructorCallback(buffer, destroyed, &called), "callback");
	release(buffer);
	printf("called %d\n", called);
}

/* Calls with 24 bytes too many, which a driver refuses, and the same calls without. */
static void beyond(void)
{
	static unsigned char memory[2 * BYTES];
	static const size_t begin[3], pitch = 10;
	cl_mem buffer = create(BYTES), other = create(2 * BYTES), part;
	unsigned char one = 1;
	cl_int r[8];
	void *map;

	for (size_t extra = 24; extra <= 24; extra -= 24) {
		const size_t bytes = BYTES + extra, box[3] = { pitch, bytes / pitch, 1 };
		const cl_buffer_region region = { 0, bytes };

		r[0] = clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, bytes, memory, 0, NULL, NULL);
		r[1] = clEnqueueWriteBuffer(queue, buffer, CL_TRUE, 0, bytes, memory, 0, NULL,
					    NULL);
		r[2] = clEnqueueFillBuffer(queue, buffer, &one, 1, 0, bytes, 0, NULL, NULL);
		r[3] = clEnqueueCopyBuffer(queue, other, buffer, 0, 0, bytes, 0, NULL, NULL);
		r[4] = clEnqueueCopyBuffer(queue, buffer, other, 0, 0, bytes, 0, NULL, NULL);
		r[5] = clEnqueueReadBufferRect(queue, buffer, CL_TRUE, begin, begin, box, pitch, 0,
					       pitch, 0, memory, 0, NULL, NULL);
		map = clEnqueueMapBuffer(queue, buffer, CL_TRUE, CL_MAP_READ, 0, bytes, 0, NULL,
					 NULL, &r[6]); /* @map */
		if (map)
			must(clEnqueueUnmapMemObject(queue, buffer, map, 0, NULL, NULL), "unmap");
		part = clCreateSubBuffer(buffer, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &r[7]);
		if (part)
			release(part);
		for (int i = 0; i < 8; i++)
			printf("%d%c", r[i], i < 7 ? ' ' : '\n');
	}
	finish();
	release(buffer);
	release(other);
}

/* A buffer of clCreateBufferWithProperties without properties is one like any other. */
static void properties(void)
{
	cl_int r;
	cl_mem buffer = clCreateBufferWithProperties(context, NULL, 0, BYTES, NULL, &r);

	must(r, "clCreateBufferWithProperties");
	launch(buffer, BYTES, 1);
	finish();
	release(buffer);
}

/* A command that waits for the host must not stop a release. */
static void waiting(void)
{
	cl_mem buffer = create(BYTES);
	static const char zero;
	cl_event gate;
	cl_int r;

	gate = clCreateUserEvent(context, &r);
	must(r, "clCreateUserEvent");
	must(clEnqueueFillBuffer(queue, buffer, &zero, 1, 0, 64, 1, &gate, NULL), "fill");
	must(clFlush(queue), "clFlush");
	release(buffer);
	release(create(2 * BYTES));
	must(clSetUserEventStatus(gate, CL_COMPLETE), "clSetUserEventStatus");
	finish();
	clReleaseEvent(gate);
}

/* A call that fails makes no block. */
static void refused(void)
{
	cl_int r;
	cl_mem buffer = clCreateBuffer(context, CL_MEM_READ_ONLY | CL_MEM_WRITE_ONLY, BYTES, NULL,
				       &r);

	printf("buffer %d, result %d\n", buffer != NULL, r);
	release(create(BYTES));
}

static atomic_bool go;

static void CL_CALLBACK wait_for_go(void *data)
{
	static const struct timespec nap = { 0, 1000000 };

	(void)data;
	while (!atomic_load(&go))
		nanosleep(&nap, NULL);
}

/* All threads of the device are busy while a buffer is created. */
static void busy(void)
{
	cl_uint threads;

	must(clGetDeviceInfo(device, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof(threads), &threads, NULL),
	     "clGetDeviceInfo");
	for (cl_uint i = 0; i < threads; i++) {
		cl_int r;
		cl_command_queue one = clCreateCommandQueue(context, device, 0, &r);

		must(r, "clCreateCommandQueue");
		must(clEnqueueNativeKernel(one, wait_for_go, NULL, 0, 0, NULL, NULL, 0, NULL, NULL),
		     "clEnqueueNativeKernel");
		must(clFlush(one), "clFlush");
		must(clReleaseCommandQueue(one), "clReleaseCommandQueue");
	}
	cl_mem buffer = create(BYTES);

	atomic_store(&go, true);
	release(buffer);
	release(create(BYTES));
}

static const struct story stories[] = {
	{ "refused", refused }, { "busy", busy },
	{ "behind_1", behind_1 }, { "behind_16", behind_16 }, { "behind_256", behind_256 },
	{ "behind_clean", behind_clean }, { "at_release", at_release }, { "at_exit", at_exit },
	{ "twice", twice },
	{ "after_release", after_release }, { "released_early", released_early },
	{ "copied", copied }, { "parts", parts }, { "callback", callback }, { "waiting", waiting },
	{ "beyond", beyond }, { "properties", properties },
};

int main(int argc, char **argv)
{
	begin();
	build();
	TELL(stories, argc > 1 ? argv[1] : "");
	must(clFinish(queue), "clFinish"); /* @last_finish */
	must(clReleaseKernel(kernel), "clReleaseKernel");
	must(clReleaseCommandQueue(queue), "clReleaseCommandQueue");
	if (strcmp(argv[argc - 1], "at_exit") != 0)
		must(clReleaseContext(context), "clReleaseContext");
	return 0;
}
