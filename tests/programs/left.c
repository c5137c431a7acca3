/* SPDX-License-Identifier: MIT
 *
 * Calls that never return to their caller: a jump out of the driver, a thread that ends inside
 * it, a jump out of gpuleak. Driver and gpuleak call functions of libc that are defined here, so
 * that it happens at the same place each time.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "cu.h"

static CUcontext context;
static sigjmp_buf back;
static __thread enum way { STAY, JUMP, END_THREAD } armed;
static __thread bool armed_lock;

static void leave_now(void)
{
	enum way how = armed;

	armed = STAY;
	if (how == JUMP)
		siglongjmp(back, 1);
	if (how == END_THREAD)
		pthread_exit(NULL);
}

static bool is_driver(const void *address)
{
	Dl_info info;

	return dladdr(address, &info) && strstr(info.dli_fname, "libcuda");
}

/* The stand-in driver's. */
int pthread_mutex_lock(pthread_mutex_t *mutex)
{
	static int (*real)(pthread_mutex_t *);

	if (!real)
		real = (int (*)(pthread_mutex_t *))dlsym(RTLD_NEXT, "pthread_mutex_lock");
	if (armed_lock && is_driver(__builtin_return_address(0))) {
		armed_lock = false;
		leave_now();
	}
	return real(mutex);
}

/* gpuleak's, in each call that it records. */
static __thread bool armed_clock;
int clock_gettime(clockid_t clock, struct timespec *time)
{
	static int (*real)(clockid_t, struct timespec *);

	if (!real)
		real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
	if (armed_clock) {
		armed_clock = false;
		leave_now();
	}
	return real(clock, time);
}

/* gpuleak's, with a lock. */
static __thread bool armed_map;
void *mmap64(void *address, size_t bytes, int protection, int flags, int fd, off64_t at)
{
	static void *(*real)(void *, size_t, int, int, int, off64_t);

	if (!real)
		real = (void *(*)(void *, size_t, int, int, int, off64_t))dlsym(RTLD_NEXT,
										 "mmap64");
	if (armed_map) {
		armed_map = false;
		leave_now();
	}
	return real(address, bytes, protection, flags, fd, at);
}

static CUdeviceptr allocate(size_t bytes)
{
	CUdeviceptr address = 0;

	must(cuMemAlloc_v2(&address, bytes), "alloc"); /* @alloc */
	return address;
}

static void release(CUdeviceptr address)
{
	must(cuMemFree_v2(address), "free");
}

/* Of COUNT words: of these calls the driver takes a lock of libc's. */
static void *make_array(size_t count)
{
	const struct array_descriptor shape = { count, 1, CU_AD_FORMAT_FLOAT, 1 };
	void *array;

	must(cuArrayCreate_v2(&array, &shape), "array"); /* @array */
	return array;
}

static void drop_array(void *array)
{
	must(cuArrayDestroy(array), "destroy");
}

static void many(int count, size_t bytes)
{
	for (int i = 0; i < count; i++)
		allocate(bytes); /* @many */
}

/* ---- out of the driver ---- */

static void left_alloc(void)
{
	armed = JUMP;
	armed_lock = true;
	if (sigsetjmp(back, 0) == 0)
		make_array(100);
	armed_lock = false;
}

static void left_free(void *array)
{
	armed = JUMP;
	armed_lock = true;
	if (sigsetjmp(back, 0) == 0)
		drop_array(array);
	armed_lock = false;
}

static void out_of_driver(void)
{
	void *again = make_array(10), *lost = make_array(20); /* @lost */

	left_alloc();
	left_free(again);
	left_free(lost);
	drop_array(again); /* it was not freed then */
	for (int i = 0; i < 3; i++)
		left_alloc();
	drop_array(make_array(30));
	many(1000, 5); /* @main_many */
}

static void *end_in_driver(void *unused)
{
	void *array;

	(void)unused;
	must(cuCtxSetCurrent(context), "context");
	array = make_array(40); /* @thread */
	armed = END_THREAD;
	armed_lock = true;
	drop_array(array);
	return NULL;
}

static void threads_end(void *(*work)(void *))
{
	for (int i = 0; i < 4; i++) {
		pthread_t thread;

		pthread_create(&thread, NULL, work, NULL);
		pthread_join(thread, NULL);
	}
}

/* ---- out of gpuleak ---- */

static void out_of_clock(void)
{
	armed = JUMP;
	armed_clock = true;
	if (sigsetjmp(back, 0) == 0)
		allocate(100);
	armed_clock = false;
	many(1000, 5);
}

static void *one_more(void *unused)
{
	(void)unused;
	must(cuCtxSetCurrent(context), "context");
	allocate(7);
	return NULL;
}

/* What is held then is a lock that every thread needs. */
static void out_of_lock(void)
{
	volatile int i;

	armed = JUMP;
	armed_map = true;
	if (sigsetjmp(back, 0) == 0)
		for (i = 0; i < 1000000 && armed_map; i++)
			allocate(1);
	many(1000, 5);
	threads_end(one_more);
}

static void *end_in_gpuleak(void *unused)
{
	(void)unused;
	must(cuCtxSetCurrent(context), "context");
	allocate(7);
	armed = END_THREAD;
	armed_clock = true;
	allocate(8);
	return NULL;
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";

	must(cuInit(0), "cuInit");
	must(cuCtxCreate_v2(&context, 0, 0), "cuCtxCreate_v2");
	release(allocate(1));
	if (strcmp(how, "driver") == 0)
		out_of_driver(); /* @main_driver */
	else if (strcmp(how, "driver-thread") == 0)
		threads_end(end_in_driver);
	else if (strcmp(how, "clock") == 0)
		out_of_clock();
	else if (strcmp(how, "lock") == 0)
		out_of_lock();
	else if (strcmp(how, "gpuleak-thread") == 0)
		threads_end(end_in_gpuleak);
	printf("went on\n");
	return 0;
}
