/* SPDX-License-Identifier: MIT
 *
 * The native code between Python and the driver: what an extension does, without the headers
 * of any Python. Called through ctypes; finds the C API of whoever loaded it.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

int cuMemAlloc_v2(uint64_t *ret, size_t bytes);
int cuMemFree_v2(uint64_t address);
int cuCtxGetCurrent(void **ret);
int cuCtxSetCurrent(void *context);

/* As an extension does that is linked to the driver. */
int helper_allocate(size_t bytes)
{
	uint64_t address;

	return cuMemAlloc_v2(&address, bytes);
}

/* Often from one place, so that the stack is one that is remembered; the last one stays. */
int helper_repeat(size_t bytes, int times)
{
	uint64_t address = 0;
	int r = 0;

	for (int i = 0; i < times && r == 0; i++) {
		if (i > 0)
			r = cuMemFree_v2(address);
		if (r == 0)
			r = cuMemAlloc_v2(&address, bytes);
	}
	return r;
}

int helper_call(void (*function)(int), int argument)
{
	function(argument);
	return 0;
}

/* Calls a Python function from native code, the GIL held: an extension in between. */
void *helper_call_object(void *callable)
{
	static void *(*call)(void *, void *);

	if (!call)
		*(void **)&call = dlsym(RTLD_DEFAULT, "PyObject_CallObject");
	return call ? call(callable, NULL) : NULL;
}

static void *context;

static void *allocate_on_thread(void *bytes)
{
	if (cuCtxSetCurrent(context) != 0)
		return (void *)(intptr_t)-1;
	return (void *)(intptr_t)helper_allocate((size_t)bytes);
}

/* On a thread that Python has never heard of. */
int helper_on_thread(size_t bytes)
{
	pthread_t thread;
	void *result = NULL;

	cuCtxGetCurrent(&context);
	if (pthread_create(&thread, NULL, allocate_on_thread, (void *)bytes) != 0)
		return -1;
	pthread_join(thread, &result);
	return (int)(intptr_t)result;
}

struct repeat {
	size_t bytes;
	int times, result;
};

static void *repeat_on_thread(void *data)
{
	struct repeat *repeat = data;

	repeat->result = cuCtxSetCurrent(context);
	if (repeat->result == 0)
		repeat->result = helper_repeat(repeat->bytes, repeat->times);
	return NULL;
}

int helper_repeat_on_thread(size_t bytes, int times)
{
	struct repeat repeat = { bytes, times, -1 };
	pthread_t thread;

	cuCtxGetCurrent(&context);
	if (pthread_create(&thread, NULL, repeat_on_thread, &repeat) != 0)
		return -1;
	pthread_join(thread, NULL);
	return repeat.result;
}

static _Atomic int is_waiting, is_let_go, has_allocated;

/* Waits until another thread calls helper_let_go(), then allocates. */
int helper_allocate_when_let_go(size_t bytes)
{
	int r;

	is_waiting = 1;
	while (!is_let_go)
		usleep(1000);
	r = helper_allocate(bytes);
	has_allocated = 1;
	return r;
}

int helper_is_waiting(void)
{
	return is_waiting;
}

/* Returns after the other thread has allocated. */
int helper_let_go(void)
{
	is_let_go = 1;
	while (!has_allocated)
		usleep(1000);
	return 0;
}

static volatile sig_atomic_t handled, every; /* every: microseconds, 0 ends the signals */

static void next_signal(void)
{
	const struct itimerval timer = { { 0, 0 }, { 0, every } };

	setitimer(ITIMER_REAL, &timer, NULL);
}

/* Starts the timer anew at its end. A timer that repeats would leave the interpreter no time where
 * the handler takes longer than MICROSECONDS: a slow processor. */
static void handle(int number)
{
	uint64_t address;

	(void)number;
	if (cuMemAlloc_v2(&address, 64) == 0)
		cuMemFree_v2(address);
	handled++;
	next_signal();
}

/* From now on MICROSECONDS after the last signal, wherever the interpreter is just then; 0: no
 * longer. Returns how many signals were handled. */
int helper_by_signal(int microseconds)
{
	const struct sigaction action = { .sa_handler = handle, .sa_flags = SA_RESTART };

	sigaction(SIGALRM, &action, NULL);
	every = microseconds;
	next_signal();
	return handled;
}
