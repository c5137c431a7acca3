/* SPDX-License-Identifier: MIT
 *
 * Buffers whose last reference goes while something still needs them: commands behind a
 * gate that this program opens itself, parts, callbacks.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cl.h"

static cl_command_queue queue;
static cl_event gate;

/* All that is queued from now on waits for open_gate(). */
static void close_gate(void)
{
	cl_int r;

	queue = clCreateCommandQueue(context, device, 0, &r);
	must(r, "clCreateCommandQueue");
	gate = clCreateUserEvent(context, &r);
	must(r, "clCreateUserEvent");
}

static void open_gate(void)
{
	must(clSetUserEventStatus(gate, CL_COMPLETE), "clSetUserEventStatus");
	must(clFinish(queue), "clFinish");
}

/* A command that needs OBJECT and waits at the gate. */
static void use(cl_mem object)
{
	static const char zero;

	must(clEnqueueFillBuffer(queue, object, &zero, 1, 0, 64, 1, &gate, NULL), "fill");
	must(clFlush(queue), "clFlush");
}

static void done(void)
{
	clReleaseEvent(gate);
	clReleaseCommandQueue(queue);
}

/* Freed by the command's end, on a thread of the driver's. */
static void command(void)
{
	cl_mem first = create(10000), second = create(20000); /* @two */

	close_gate();
	use(first);
	use(second);
	release(first); /* @first */
	release(second); /* @second */
	usleep(30000);
	open_gate();
	done();
}

static void never(void)
{
	cl_mem object = create(30000), other = create(40000); /* @never */

	close_gate();
	use(object);
	release(object); /* @never_release */
	release(other);
	fflush(stdout);
	_exit(0);
}

static void in_the_dark(void)
{
	cl_mem object = create(30000); /* @dark */

	close_gate();
	use(object);
	release(object); /* @dark_release */
	abort();
}

static void again(void)
{
	cl_mem object = create(5000); /* @again */

	close_gate();
	use(object);
	use(object);
	release(object); /* @again_first */
	printf("again: %d\n", clReleaseMemObject(object)); /* @again_second */
	open_gate();
	done();
}

static void back_to_life(void)
{
	cl_mem object = create(6000); /* @back */

	close_gate();
	use(object);
	release(object);
	retain(object); /* @back_retain */
	open_gate();
	done();
}

static void parts(void)
{
	cl_buffer_region region = { 0, 4096 };
	cl_mem parent = create(8192), sub; /* @parts */
	cl_int r;

	sub = clCreateSubBuffer(parent, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &r); /* @part */
	must(r, "clCreateSubBuffer");
	release(parent); /* @parent */
	printf("%d\n", sub != NULL);
}

/* The application's own callbacks: both run, the last one first, and may call us. */
static atomic_int order, seen[3];

static void CL_CALLBACK on_first(cl_mem object, void *data)
{
	(void)object, (void)data;
	seen[0] = ++order;
}

static void CL_CALLBACK on_second(cl_mem object, void *data)
{
	cl_mem other = create(300);

	(void)object, (void)data;
	seen[1] = ++order;
	release(other);
	retain(data);
	release(data);
	release(data);
}

static void callbacks(void)
{
	cl_mem object = create(100), other = create(200);

	must(clSetMemObjectDestructorCallback(object, on_first, NULL), "callback");
	must(clSetMemObjectDestructorCallback(object, on_second, other), "callback");
	release(object);
	while (!seen[0]) /* the last one; a driver may call them on a thread of its own */
		usleep(1000);
	printf("first %d, second %d\n", seen[0], seen[1]);
}

static void *create_and_use(void *unused)
{
	for (int i = 0; i < 100; i++) {
		cl_mem object = create(512), free_at_once = create(256);

		use(object);
		release(object);
		release(free_at_once);
	}
	return unused;
}

static void threads(void)
{
	pthread_t thread[6];

	close_gate();
	for (int i = 0; i < 6; i++)
		pthread_create(&thread[i], NULL, create_and_use, NULL);
	for (int i = 0; i < 6; i++)
		pthread_join(thread[i], NULL);
	open_gate();
	done();
}

static cl_int make(size_t bytes, cl_mem *ret)
{
	cl_int r;

	*ret = clCreateBuffer(context, CL_MEM_READ_WRITE, bytes, NULL, &r);
	return r;
}

/* GPULEAK_LIMIT is 100000: what waits at the gate and was released does not count, until it is
 * retained again. */
static void limited(void)
{
	cl_mem object = create(60000), other, third;

	close_gate();
	use(object);
	printf("held: %d\n", make(60000, &other));
	release(object);
	printf("released: %d\n", make(60000, &other));
	retain(object);
	printf("retained: %d\n", make(1, &third));
	release(object);
	release(other);
	open_gate();
	printf("left: %d\n", make(100000, &third));
	release(third);
	done();
}

/* A child has none of it, whatever the driver tells it there. */
static void child(void)
{
	cl_mem object = create(700);
	int status = 77;

	if (fork() == 0) {
		clReleaseMemObject(object);
		_exit(0);
	}
	wait(&status);
	release(object);
	printf("child %d\n", status);
}

static cl_mem global;
__attribute__((destructor)) static void at_the_end(void)
{
	if (global)
		clReleaseMemObject(global);
}

static void CL_CALLBACK count_end(cl_mem object, void *count)
{
	(void)object;
	atomic_fetch_add((atomic_int *)count, 1);
}

/* Prints 1 if the driver frees a buffer within the call that releases it, 0 if later. */
static void late(void)
{
	static atomic_int ended;
	cl_mem probe = create(100);

	must(clSetMemObjectDestructorCallback(probe, count_end, &ended), "callback");
	release(probe);
	printf("%d\n", atomic_load(&ended));
	global = create(900);
}

int main(int argc, char **argv)
{
	static const struct story stories[] = {
		{ "command", command }, { "never", never }, { "dark", in_the_dark },
		{ "again", again }, { "back", back_to_life }, { "parts", parts },
		{ "callbacks", callbacks }, { "threads", threads }, { "child", child },
		{ "late", late }, { "limited", limited },
	};

	begin();
	TELL(stories, argc > 1 ? argv[1] : ""); /* @main */
	return 0;
}
