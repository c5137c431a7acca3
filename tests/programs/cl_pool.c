/* SPDX-License-Identifier: MIT
 *
 * What the pool of OpenCL buffers must do, and must not: prints what an application can see
 * of it. Where it prints that a handle came again, only the pool can have done that.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "cl.h"

#define MIB ((size_t)1 << 20)

static cl_command_queue queue_of(cl_command_queue_properties properties)
{
	cl_int r;
	cl_command_queue made = clCreateCommandQueue(context, device, properties, &r);

	must(r, "clCreateCommandQueue");
	return made;
}

static cl_mem create_as(cl_mem_flags flags, size_t bytes, void *host)
{
	cl_int r;
	cl_mem made = clCreateBuffer(context, flags, bytes, host, &r);

	must(r, "clCreateBuffer");
	return made;
}

static void fill_until(cl_command_queue queue, cl_mem object, size_t bytes, cl_event gate,
		       cl_event *end)
{
	static const cl_uint value = 7;

	must(clEnqueueFillBuffer(queue, object, &value, sizeof(value), 0, bytes, gate ? 1 : 0,
				 gate ? &gate : NULL, end), "fill");
	must(clFlush(queue), "clFlush");
}

static void fill(cl_command_queue queue, cl_mem object, size_t bytes, cl_event gate)
{
	fill_until(queue, object, bytes, gate, NULL);
}

static cl_event gate_new(void)
{
	cl_int r;
	cl_event made = clCreateUserEvent(context, &r);

	must(r, "clCreateUserEvent");
	return made;
}

static void gate_open(cl_event gate)
{
	must(clSetUserEventStatus(gate, CL_COMPLETE), "clSetUserEventStatus");
	clReleaseEvent(gate);
}

/* A driver's own thread may hold what a finished command used for a moment longer, and what
 * something holds is not kept. */
static void wait_for_last_reference(cl_mem object)
{
	cl_uint references = 0;

	for (int i = 0; i < 10000 && references != 1; i++) {
		must(clGetMemObjectInfo(object, CL_MEM_REFERENCE_COUNT, sizeof(references),
					&references, NULL), "clGetMemObjectInfo");
		if (references != 1)
			usleep(1000);
	}
}

/* One buffer serves all: 99 of 100. */
static void loop(void)
{
	cl_command_queue queue = queue_of(0);

	for (int i = 0; i < 100; i++) {
		cl_mem object = create(MIB);

		fill(queue, object, MIB, NULL);
		must(clFinish(queue), "clFinish");
		wait_for_last_reference(object);
		release(object);
	}
	clReleaseCommandQueue(queue);
}

/* Nothing was ever put into a queue: no marker is needed. */
static void idle(void)
{
	for (int i = 0; i < 50; i++) {
		cl_mem one = create(1000), two = create(1001), three = create(1000);

		release(one);
		release(two);
		release(three);
	}
	for (int i = 0; i < 50; i++)
		release(create_as(CL_MEM_READ_ONLY, 1000, NULL));
}

static void CL_CALLBACK ended(cl_mem object, void *data)
{
	(void)object;
	++*(atomic_int *)data;
}

static void map(cl_command_queue queue, cl_mem object)
{
	cl_int r;

	clEnqueueMapBuffer(queue, object, CL_TRUE, CL_MAP_WRITE, 0, 64, 0, NULL, NULL, &r);
	must(r, "map");
}

static void reasons(void)
{
	static char host[4096] __attribute__((aligned(4096)));
	const cl_mem_properties none[] = { 0 };
	const cl_image_format format = { CL_RGBA, CL_UNSIGNED_INT8 };
	cl_image_desc flat = { .image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = 8,
			       .image_height = 8 };
	cl_buffer_region region = { 0, 4096 };
	cl_command_queue queue = queue_of(0);
	static atomic_int called; /* PoCL 7 may call back after release() has returned */
	cl_mem object, part;
	cl_int r;

	release(create_as(CL_MEM_USE_HOST_PTR, sizeof(host), host));
	release(create_as(CL_MEM_COPY_HOST_PTR, sizeof(host), host));
	release(create_as(CL_MEM_ALLOC_HOST_PTR, sizeof(host), NULL));
	object = clCreateBufferWithProperties(context, none, 0, 4096, NULL, &r);
	must(r, "properties");
	release(object);
	object = create(4096);
	must(clSetMemObjectDestructorCallback(object, ended, &called), "callback");
	release(object);
	object = create(8192);
	part = clCreateSubBuffer(object, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &r);
	must(r, "sub-buffer");
	release(part);
	release(object);
	object = clCreateImage(context, 0, &format, &flat, NULL, &r);
	must(r, "image");
	release(object);
	object = create(4096);
	map(queue, object);
	release(object);
	release(create(65 * MIB)); /* more than the pool may keep */
	for (int i = 0; i < 1000 && !called; i++)
		usleep(1000);
	printf("called %d\n", called);
	clReleaseCommandQueue(queue);
}

static cl_int references_of(cl_mem object, cl_uint *ret)
{
	return clGetMemObjectInfo(object, CL_MEM_REFERENCE_COUNT, sizeof(*ret), ret, NULL);
}

static void again(void)
{
	cl_mem object = create(5000), other;
	cl_uint count = 0;

	retain(object);
	release(object);
	must(references_of(object, &count), "info");
	printf("references %u\n", count);
	release(object);
	printf("release %d\n", clReleaseMemObject(object)); /* @again */
	printf("retain %d\n", clRetainMemObject(object));
	printf("info %d\n", references_of(object, &count));
	printf("callback %d\n", clSetMemObjectDestructorCallback(object, ended, &count));
	other = create(5000);
	must(references_of(other, &count), "info");
	printf("the same %d, references %u\n", object == other, count);
	release(other);
}

/* A buffer that commands may still write is nobody's: not in order, not beside another queue
 * made later, not when its queue is gone. */
static void pending(void)
{
	cl_command_queue queue = queue_of(0), second;
	cl_mem object = create(MIB), other, third;
	cl_event gate = gate_new();

	fill(queue, object, MIB, gate);
	release(object);
	other = create(MIB);
	printf("in order: the same %d\n", object == other);
	second = queue_of(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
	third = create(MIB);
	printf("second queue: the same %d\n", object == third);
	clReleaseCommandQueue(queue);
	release(third);
	third = create(MIB);
	printf("its queue gone: the same %d\n", object == third);
	gate_open(gate);
	usleep(100000);
	must(clFinish(second), "clFinish");
	usleep(100000);
	release(third);
	release(other);
	clReleaseCommandQueue(second);
}

static void fill_and_wait(cl_command_queue queue, cl_mem object, size_t bytes)
{
	static const cl_uint value = 7;
	cl_event done;

	must(clEnqueueFillBuffer(queue, object, &value, sizeof(value), 0, bytes, 0, NULL, &done),
	     "fill");
	must(clWaitForEvents(1, &done), "clWaitForEvents");
	clReleaseEvent(done);
}

/* A buffer that commands held when it was released ends with them, though nobody asks for the
 * marker of the one before it: the third is made when neither is there. */
static void behind(void)
{
	cl_command_queue queue = queue_of(0);
	cl_mem first = create(MIB), second;
	cl_event gate = gate_new(), end;
	cl_int status = CL_QUEUED;

	fill_and_wait(queue, first, MIB);
	wait_for_last_reference(first);
	release(first);
	second = create(2 * MIB);
	fill_until(queue, second, 2 * MIB, gate, &end);
	release(second);
	gate_open(gate);
	for (int i = 0; i < 60000 && status != CL_COMPLETE; i++) { /* without the pool's notice */
		usleep(1000);
		must(clGetEventInfo(end, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status), &status,
				    NULL), "clGetEventInfo");
	}
	clReleaseEvent(end);
	usleep(500000); /* the driver is done with the buffer on threads of its own */
	release(create(4 * MIB));
	clReleaseCommandQueue(queue);
}

/* More markers than there is room for, and no creation that finds one of its size. */
static void sizes(void)
{
	cl_command_queue queue = queue_of(0);

	for (size_t i = 1; i <= 100; i++) {
		cl_mem object = create(i * 4096);

		fill_and_wait(queue, object, i * 4096);
		wait_for_last_reference(object);
		release(object);
	}
	clReleaseCommandQueue(queue);
}

/* Its end is the application's affair: what the pool keeps must not hold it. */
static void CL_CALLBACK context_ended(cl_context gone, void *data)
{
	(void)gone;
	printf("the context has ended\n");
	atomic_store((atomic_int *)data, 1);
}

static void contexts(void)
{
	cl_command_queue queue = queue_of(0);
	static atomic_int is_over;

	printf("callback %d\n", clSetContextDestructorCallback(context, context_ended,
							       (void *)&is_over));
	for (int i = 0; i < 10; i++) {
		cl_mem object = create(MIB * (size_t)(i % 3 + 1));

		fill(queue, object, MIB, NULL);
		release(object);
	}
	must(clFinish(queue), "clFinish");
	must(clRetainContext(context), "clRetainContext");
	clReleaseCommandQueue(queue);
	printf("first\n");
	must(clReleaseContext(context), "clReleaseContext");
	usleep(100000); /* the driver is done with it on threads of its own */
	printf("second\n");
	must(clReleaseContext(context), "clReleaseContext");
	for (int i = 0; i < 60000 && !is_over; i++)
		usleep(1000);
	printf("done\n");
}

/* GPULEAK_POOL_CACHE=1MiB keeps the two newest of these. The driver may give the handle of a freed
 * one to the next, so the others are not compared. */
static void bound(void)
{
	cl_mem object[4];

	for (int i = 0; i < 4; i++)
		object[i] = create(MIB / 2 - (size_t)i);
	for (int i = 0; i < 4; i++)
		release(object[i]);
	for (int i = 3; i >= 0; i--) {
		cl_mem other = create(MIB / 2 - (size_t)i);

		if (i >= 2)
			printf("%d: the same %d\n", i, other == object[i]);
		object[i] = other;
	}
	for (int i = 0; i < 4; i++)
		release(object[i]);
	release(create(2 * MIB)); /* too large */
}

/* ---- values: every buffer holds what its owner put there, and nothing else ---- */

static const char source[] =
	"kernel void put(global uint *p, uint value, uint spin) {"
	"  uint x = value; for (uint i = 0; i < spin; i++) x = x * 1664525u + 1013904223u;"
	"  p[get_global_id(0)] = x == 1u ? value + 1u : value; }"
	"kernel void look(global const uint *p, uint value, global volatile uint *wrong) {"
	"  if (p[get_global_id(0)] != value) atomic_inc(wrong); }";
#define WORDS 4096
#define WORKERS 4
static cl_command_queue queues[4];
static cl_mem wrong;
static cl_program program;

static cl_kernel kernel_of(const char *name)
{
	cl_int r;
	cl_kernel made = clCreateKernel(program, name, &r);

	must(r, name);
	return made;
}

static void put_and_look(cl_kernel put, cl_kernel look, unsigned int *seed)
{
	size_t words = (size_t)WORDS << rand_r(seed) % 2;
	cl_command_queue queue = queues[rand_r(seed) % 4];
	cl_uint value = (cl_uint)rand_r(seed) | 1, spin = (cl_uint)rand_r(seed) % 300;
	cl_mem object = create(words * sizeof(cl_uint));
	cl_event done;

	must(clSetKernelArg(put, 0, sizeof(object), &object), "argument");
	must(clSetKernelArg(put, 1, sizeof(value), &value), "argument");
	must(clSetKernelArg(put, 2, sizeof(spin), &spin), "argument");
	must(clSetKernelArg(look, 0, sizeof(object), &object), "argument");
	must(clSetKernelArg(look, 1, sizeof(value), &value), "argument");
	must(clSetKernelArg(look, 2, sizeof(wrong), &wrong), "argument");
	must(clEnqueueNDRangeKernel(queue, put, 1, NULL, &words, NULL, 0, NULL, &done), "put");
	must(clFlush(queue), "clFlush");
	queue = queues[rand_r(seed) % 4];
	must(clEnqueueNDRangeKernel(queue, look, 1, NULL, &words, NULL, 1, &done, NULL), "look");
	must(clFlush(queue), "clFlush");
	clReleaseEvent(done);
	release(object); /* while both may be on their way */
	if (rand_r(seed) % 16 == 0)
		must(clFinish(queue), "clFinish");
}

static void *work(void *number)
{
	unsigned int seed = (unsigned int)(size_t)number;
	cl_kernel put = kernel_of("put"), look = kernel_of("look");

	for (int i = 0; i < 500; i++)
		put_and_look(put, look, &seed);
	clReleaseKernel(put);
	clReleaseKernel(look);
	return NULL;
}

static void storm(void)
{
	const char *text = source;
	pthread_t threads[WORKERS];
	cl_uint zero = 0;
	cl_int r;

	program = clCreateProgramWithSource(context, 1, &text, NULL, &r);
	must(r, "program");
	must(clBuildProgram(program, 0, NULL, NULL, NULL, NULL), "build");
	wrong = create_as(CL_MEM_COPY_HOST_PTR, sizeof(zero), &zero);
	for (int i = 0; i < 4; i++)
		queues[i] = queue_of(i % 2 ? CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE : 0);
	for (size_t i = 0; i < WORKERS; i++)
		pthread_create(&threads[i], NULL, work, (void *)(i + 1));
	for (int i = 0; i < WORKERS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < 4; i++)
		must(clFinish(queues[i]), "clFinish");
	must(clEnqueueReadBuffer(queues[0], wrong, CL_TRUE, 0, sizeof(zero), &zero, 0, NULL, NULL),
	     "read");
	printf("wrong %u\n", zero);
	release(wrong);
	for (int i = 0; i < 4; i++)
		clReleaseCommandQueue(queues[i]);
	clReleaseProgram(program);
}

int main(int argc, char **argv)
{
	static const struct story stories[] = {
		{ "loop", loop }, { "idle", idle }, { "reasons", reasons }, { "again", again },
		{ "pending", pending }, { "contexts", contexts }, { "bound", bound },
		{ "behind", behind }, { "sizes", sizes }, { "storm", storm },
	};

	begin();
	TELL(stories, argc > 1 ? argv[1] : ""); /* @main */
	return 0;
}
