/* SPDX-License-Identifier: MIT
 *
 * OpenCL objects that are no memory: left, released, released too often, and one that
 * explains what holds a buffer.
 */
#include <pthread.h>
#include <unistd.h>

#include "cl.h"

static cl_command_queue make_queue(void)
{
	cl_int r;
	cl_command_queue made = clCreateCommandQueue(context, device, 0, &r); /* @queue */

	must(r, "clCreateCommandQueue");
	return made;
}

static cl_program make_program(void)
{
	const char *source = "kernel void first(global char *p) { p[0] = 1; }\n"
			     "kernel void second(long n, global char *p) { p[n] = 1; }\n";
	cl_int r;
	cl_program made = clCreateProgramWithSource(context, 1, &source, NULL, &r); /* @program */

	must(r, "clCreateProgramWithSource");
	must(clBuildProgram(made, 1, &device, NULL, NULL, NULL), "clBuildProgram");
	return made;
}

static cl_kernel make_kernel(cl_program program, const char *name)
{
	cl_int r;
	cl_kernel made = clCreateKernel(program, name, &r); /* @kernel */

	must(r, "clCreateKernel");
	return made;
}

static cl_event make_event(void)
{
	cl_int r;
	cl_event made = clCreateUserEvent(context, &r); /* @event */

	must(r, "clCreateUserEvent");
	return made;
}

static cl_event mark(cl_command_queue queue)
{
	cl_event made;

	must(clEnqueueMarkerWithWaitList(queue, 0, NULL, &made), "marker"); /* @marker */
	return made;
}

static cl_sampler make_sampler(void)
{
	cl_addressing_mode clamp = CL_ADDRESS_CLAMP;
	cl_int r;
	cl_sampler made;

	made = clCreateSampler(context, CL_FALSE, clamp, CL_FILTER_NEAREST, &r); /* @sampler */
	must(r, "clCreateSampler");
	return made;
}

static void left(void)
{
	cl_command_queue queue = make_queue(); /* @left_queue */
	cl_program program = make_program(); /* @left_program */

	must(clRetainCommandQueue(queue), "retain"); /* @left_retain */
	make_kernel(program, "first"); /* @left_kernel */
	make_sampler(); /* @left_sampler */
	for (int i = 0; i < 2; i++)
		mark(queue); /* @left_event */
	make_event(); /* @left_user */
	must(clFinish(queue), "finish");
}

static void clean(void)
{
	cl_command_queue queue = make_queue();
	cl_program program = make_program();
	cl_kernel kernels[4], kernel = make_kernel(program, "first");
	cl_mem buffer = create(4096), images = create(4096);
	cl_sampler sampler = make_sampler();
	cl_event event, gate = make_event();
	cl_uint count = 0;
	cl_int r;
	void *mapped;

	must(clCreateKernelsInProgram(program, 0, NULL, &count), "kernels");
	must(clCreateKernelsInProgram(program, 4, kernels, NULL), "kernels");
	for (cl_uint i = 0; i < count; i++)
		must(clReleaseKernel(kernels[i]), "release");
	must(clSetKernelArg(kernel, 0, sizeof(buffer), &buffer), "argument");
	must(clSetUserEventStatus(gate, CL_COMPLETE), "open");
	must(clEnqueueTask(queue, kernel, 1, &gate, &event), "task");
	must(clRetainEvent(event), "retain");
	must(clReleaseEvent(event), "release");
	must(clReleaseEvent(event), "release");
	mapped = clEnqueueMapBuffer(queue, buffer, CL_TRUE, CL_MAP_READ, 0, 64, 0, NULL, &event,
				    &r);
	must(r, "map");
	must(clReleaseEvent(event), "release");
	must(clEnqueueUnmapMemObject(queue, buffer, mapped, 0, NULL, NULL), "unmap");
	must(clFinish(queue), "finish");
	must(clReleaseKernel(kernel), "release");
	release(buffer);
	release(images);
	must(clReleaseEvent(gate), "release");
	must(clReleaseSampler(sampler), "release");
	must(clReleaseProgram(program), "release");
	must(clReleaseCommandQueue(queue), "release");
	must(clReleaseContext(context), "release");
	printf("%u kernels\n", count);
}

/* The buffer is an argument of a kernel that waits behind a gate, and was released. */
static void argument(int lose_kernel)
{
	cl_command_queue queue = make_queue();
	cl_kernel kernel = make_kernel(make_program(), "second"); /* @arg_kernel */
	cl_event gate = make_event();
	cl_mem before = create(1000), buffer = create(5000); /* @arg_buffer */
	cl_long n = 3;

	must(clSetKernelArg(kernel, 0, sizeof(n), &n), "argument");
	must(clSetKernelArg(kernel, 1, sizeof(before), &before), "argument");
	must(clSetKernelArg(kernel, 1, sizeof(buffer), &buffer), "argument");
	must(clEnqueueTask(queue, kernel, 1, &gate, NULL), "task");
	must(clFlush(queue), "flush");
	release(before);
	release(buffer); /* @arg_release */
	if (lose_kernel)
		must(clReleaseKernel(kernel), "release");
	_exit(0);
}

static void with_kernel(void)
{
	argument(0); /* @with */
}

static void without_kernel(void)
{
	argument(1);
}

static void queue_twice(void)
{
	cl_command_queue queue = make_queue(); /* @twice_queue */

	must(clReleaseCommandQueue(queue), "release"); /* @twice_first */
	printf("again: %d\n", clReleaseCommandQueue(queue)); /* @twice_second */
}

static void context_first(void)
{
	cl_mem buffer = create(700), lost = create(800); /* @context_lost */
	cl_command_queue queue = make_queue();

	must(clReleaseContext(context), "release");
	release(buffer);
	must(clReleaseCommandQueue(queue), "release");
	printf("%d\n", lost != NULL);
}

/* Events, buffers and queues get each other's addresses. */
static void *take_turns(void *unused)
{
	cl_command_queue queue = make_queue();

	for (int i = 0; i < 300; i++) {
		cl_event event = mark(queue), user = make_event();
		cl_mem buffer = create(64);
		cl_command_queue other = i % 10 ? NULL : make_queue();

		must(clFinish(queue), "finish");
		must(clReleaseEvent(event), "release");
		release(buffer);
		must(clReleaseEvent(user), "release");
		if (other)
			must(clReleaseCommandQueue(other), "release");
	}
	must(clReleaseCommandQueue(queue), "release");
	return unused;
}

static void turns(void)
{
	pthread_t thread[4];

	for (int i = 0; i < 4; i++)
		pthread_create(&thread[i], NULL, take_turns, NULL);
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
}

/* What fails makes nothing, and NULL is the driver's affair. */
static void failing(void)
{
	cl_event event = NULL;
	cl_int r;

	printf("%d", clCreateCommandQueue(NULL, device, 0, &r) != NULL);
	printf(" %d", clEnqueueMarkerWithWaitList(NULL, 0, NULL, &event));
	printf(" %d", clReleaseKernel(NULL));
	printf(" %d", clRetainEvent(NULL));
	printf(" %d", clSetKernelArg(NULL, 0, 8, &r));
	printf(" %d\n", clCreateKernelsInProgram(NULL, 1, NULL, NULL));
}

int main(int argc, char **argv)
{
	static const struct story stories[] = {
		{ "left", left }, { "clean", clean }, { "with-kernel", with_kernel },
		{ "without-kernel", without_kernel }, { "queue-twice", queue_twice },
		{ "context-first", context_first }, { "turns", turns }, { "failing", failing },
	};

	begin(); /* @main_begin */
	TELL(stories, argc > 1 ? argv[1] : ""); /* @main */
	return 0;
}
