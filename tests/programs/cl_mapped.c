/* SPDX-License-Identifier: MIT
 *
 * OpenCL memory that is released while it is mapped, and released memory that stays for other
 * reasons. The reasons are made here, so that nothing depends on how fast a driver is.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include "cl.h"

#define SIZE 4096

static cl_command_queue queue;

static void make_queue(cl_command_queue_properties properties)
{
	cl_int r;

	queue = clCreateCommandQueue(context, device, properties, &r);
	must(r, "clCreateCommandQueue");
}

static void *map(cl_mem object)
{
	cl_int r;
	void *at = clEnqueueMapBuffer(queue, object, CL_TRUE, CL_MAP_WRITE, 0, SIZE, /* @map */
				      0, NULL, NULL, &r);

	must(r, "clEnqueueMapBuffer");
	return at;
}

static void unmap(cl_mem object, void *at)
{
	must(clEnqueueUnmapMemObject(queue, object, at, 0, NULL, NULL), "unmap");
	must(clFinish(queue), "clFinish");
}

static void buffers(void)
{
	make_queue(0);
	for (int i = 0; i < 50; i++) {
		cl_mem object = create(SIZE); /* @buffer */

		map(object); /* @buffer_map */
		release(object); /* @buffer_release */
	}
	clReleaseCommandQueue(queue);
}

static cl_mem create_image(cl_mem_object_type type, size_t height, cl_mem of)
{
	const cl_image_format format = { CL_RGBA, CL_UNORM_INT8 };
	const cl_image_desc shape = { .image_type = type, .image_width = 16,
				      .image_height = height, .mem_object = of };
	cl_int r;
	cl_mem made = clCreateImage(context, CL_MEM_READ_WRITE, &format, &shape, /* @create_image */
				    NULL, &r);

	must(r, "clCreateImage");
	return made;
}

static void image(void)
{
	const size_t origin[3] = { 0, 0, 0 }, region[3] = { 16, 16, 1 };
	cl_mem object;
	size_t pitch;
	cl_int r;

	make_queue(0);
	object = create_image(CL_MEM_OBJECT_IMAGE2D, 16, NULL); /* @image */
	clEnqueueMapImage(queue, object, CL_TRUE, CL_MAP_READ, origin, region, /* @image_map */
			  &pitch, NULL, 0, NULL, NULL, &r);
	must(r, "clEnqueueMapImage");
	release(object); /* @image_release */
}

/* PoCL ends the sub-buffer and keeps the buffer, other drivers may keep both. */
static void part(void)
{
	cl_buffer_region region = { 0, SIZE };
	cl_mem object = create(2 * SIZE), sub; /* @whole */
	cl_int r;

	make_queue(0);
	sub = clCreateSubBuffer(object, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &r);
	must(r, "clCreateSubBuffer");
	map(sub); /* @part_map */
	release(sub);
	release(object); /* @whole_release */
}

/* The image is left: it is the leak, and what keeps the buffer. */
static void image_of(void)
{
	cl_mem object = create(SIZE); /* @under */

	create_image(CL_MEM_OBJECT_IMAGE1D_BUFFER, 0, object); /* @over */
	release(object); /* @under_release */
}

static void *unmap_it(void *object)
{
	void **words = object;

	unmap(words[0], words[1]);
	return NULL;
}

/* Legal: the driver keeps what is mapped. By another thread, too. */
static void late(void)
{
	cl_mem object = create(SIZE);
	void *words[2] = { object };
	pthread_t thread;

	make_queue(0);
	words[1] = map(object);
	release(object);
	pthread_create(&thread, NULL, unmap_it, words);
	pthread_join(thread, NULL);
	clReleaseCommandQueue(queue);
}

static void pairs(int count)
{
	cl_mem object = create(SIZE);

	make_queue(0);
	for (int i = 0; i < count; i++)
		unmap(object, map(object));
	release(object);
}

static void few_pairs(void)
{
	pairs(10);
}

static void many_pairs(void)
{
	pairs(3000);
}

/* Calls that the driver refuses change nothing. */
static void refused(void)
{
	cl_mem object = create(SIZE), mapped = create(2 * SIZE); /* @refused */
	char other[16];
	cl_int r;

	make_queue(0);
	clEnqueueMapBuffer(queue, object, CL_TRUE, CL_MAP_WRITE, 0, 2 * SIZE, 0, NULL, NULL, &r);
	printf("map %d", r);
	release(object);
	map(mapped); /* @refused_map */
	r = clEnqueueUnmapMemObject(queue, mapped, other, 0, NULL, NULL);
	printf(", unmap %d\n", r != CL_SUCCESS);
	release(mapped); /* @refused_release */
}

/* Two mappings; the one that is left is named. */
static void second(void)
{
	cl_mem object = create(2 * SIZE); /* @second */
	void *at;
	cl_int r;

	make_queue(0);
	at = map(object);
	clEnqueueMapBuffer(queue, object, CL_TRUE, CL_MAP_READ, SIZE, SIZE, /* @second_map */
			   0, NULL, NULL, &r);
	must(r, "clEnqueueMapBuffer");
	must(clEnqueueUnmapMemObject(queue, object, at, 0, NULL, NULL), "unmap");
	must(clFinish(queue), "clFinish");
	release(object); /* @second_release */
}

static void revived(void)
{
	cl_mem object = create(SIZE);
	void *at;

	make_queue(0);
	at = map(object);
	release(object);
	retain(object);
	unmap(object, at);
	release(object);
	clReleaseCommandQueue(queue);
}

/* Each step leaves one more. */
static void steps(void)
{
	int (*step)(const char *) = (int (*)(const char *))dlsym(RTLD_DEFAULT, "gpuleak_step");

	make_queue(0);
	for (int i = 0; i < 8; i++) {
		cl_mem object = create(SIZE); /* @step */

		map(object); /* @step_map */
		release(object); /* @step_release */
		if (step)
			step(NULL);
	}
}

/* ---- clean programs that end in the middle of their work ---- */

static cl_kernel make_kernel(void)
{
	const char *source = "kernel void f(global char *a) { a[get_global_id(0)] = 1; }";
	cl_program program;
	cl_kernel kernel;
	cl_int r;

	program = clCreateProgramWithSource(context, 1, &source, NULL, &r);
	must(r, "clCreateProgramWithSource");
	must(clBuildProgram(program, 1, &device, "", NULL, NULL), "clBuildProgram");
	kernel = clCreateKernel(program, "f", &r);
	must(r, "clCreateKernel");
	return kernel;
}

/* Nobody waits for the commands. */
static void unfinished(void)
{
	static const char zero;

	make_queue(0);
	for (int i = 0; i < 20; i++) {
		cl_mem object = create(SIZE);

		must(clEnqueueFillBuffer(queue, object, &zero, 1, 0, SIZE, 0, NULL, NULL), "fill");
		release(object);
	}
	must(clFlush(queue), "clFlush");
}

/* The kernel, whose last argument was released, and the queue are left. */
static void objects(void)
{
	const size_t count = 64;
	cl_kernel kernel = make_kernel();

	make_queue(0);
	for (int i = 0; i < 20; i++) {
		cl_mem object = create(SIZE);

		must(clSetKernelArg(kernel, 0, sizeof(object), &object), "clSetKernelArg");
		must(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &count, NULL, 0, NULL, NULL),
		     "clEnqueueNDRangeKernel");
		release(object);
	}
	must(clFinish(queue), "clFinish");
}

/* ---- user events ---- */

static cl_event make_event(void)
{
	cl_int r;
	cl_event event = clCreateUserEvent(context, &r); /* @event */

	must(r, "clCreateUserEvent");
	return event;
}

static void fill(cl_mem object, cl_uint count, const cl_event *waits, cl_event *made)
{
	static const char zero;
	cl_int r = clEnqueueFillBuffer(queue, object, &zero, 1, 0, 64, count, waits, /* @fill */
				       made);

	must(r, "fill");
}

/* What waits for the event itself, for a command behind it, and what is in a queue behind that. */
static void behind(void)
{
	cl_event event = make_event(), made; /* @behind_event */
	cl_mem direct = create(1000), chained = create(2000), queued = create(3000); /* @behind */
	size_t count = 64;
	cl_kernel kernel;
	cl_mem argument;

	make_queue(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
	fill(direct, 1, &event, &made); /* @direct */
	fill(chained, 1, &made, NULL); /* @chained */
	make_queue(0);
	kernel = make_kernel();
	argument = create(4000); /* @argument */
	must(clSetKernelArg(kernel, 0, sizeof(argument), &argument), "clSetKernelArg");
	must(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &count, NULL, /* @run */
				    1, &made, NULL), "clEnqueueNDRangeKernel");
	fill(queued, 0, NULL, NULL); /* @queued */
	must(clFlush(queue), "clFlush");
	release(direct); /* @behind_release */
	release(chained); /* @behind_release */
	release(queued); /* @behind_release */
	release(argument); /* @behind_release */
	fflush(stdout);
	_exit(0);
}

/* The same with an event that is set: it is no reason any more. */
static void set(void)
{
	cl_event event = make_event();
	cl_mem object = create(1000);

	make_queue(0);
	fill(object, 1, &event, NULL);
	release(object);
	must(clSetUserEventStatus(event, CL_COMPLETE), "clSetUserEventStatus");
	must(clFinish(queue), "clFinish");
	clReleaseEvent(event);
}

/* ---- a reason that nothing shows ---- */

static void CL_CALLBACK wait_forever(void *unused)
{
	(void)unused;
	for (;;)
		pause();
}

/* A command that runs for as long as the process does. */
static void busy(void)
{
	cl_mem objects[3];
	void *args[3] = { 0 };
	const void *places[3] = { &args[0], &args[1], &args[2] };

	make_queue(0);
	for (int i = 0; i < 3; i++)
		objects[i] = create(SIZE); /* @busy */
	must(clEnqueueNativeKernel(queue, wait_forever, args, sizeof(args), 3, objects, places, 0,
				   NULL, NULL), "clEnqueueNativeKernel");
	must(clFlush(queue), "clFlush");
	for (int i = 0; i < 3; i++)
		release(objects[i]); /* @busy_release */
	fflush(stdout);
	_exit(0);
}

int main(int argc, char **argv)
{
	static const struct story stories[] = {
		{ "buffers", buffers }, { "image", image }, { "part", part },
		{ "image_of", image_of }, { "late", late }, { "few_pairs", few_pairs },
		{ "many_pairs", many_pairs }, { "refused", refused }, { "second", second },
		{ "revived", revived }, { "steps", steps }, { "unfinished", unfinished },
		{ "objects", objects }, { "behind", behind }, { "set", set }, { "busy", busy },
	};

	begin();
	TELL(stories, argc > 1 ? argv[1] : ""); /* @main */
	return 0;
}
