/* SPDX-License-Identifier: MIT
 *
 * Leaks one block in each way in which the C library calls a program: from a constructor, main, a
 * thread, the destructor of a thread's key, a comparison of qsort() and an exit handler.
 */
#include <pthread.h>

#include "cu.h"

static CUcontext context;

static __attribute__((noinline)) void leak(size_t bytes)
{
	CUdeviceptr block;

	must(cuCtxSetCurrent(context), "context");
	must(cuMemAlloc_v2(&block, bytes), "alloc");
}

static __attribute__((constructor)) void in_constructor(void)
{
	must(cuInit(0), "init");
	must(cuCtxCreate_v2(&context, 0, 0), "create");
	leak(1000);
}

static void in_key(void *value)
{
	(void)value;
	leak(2000);
}

static void *in_thread(void *key)
{
	leak(3000);
	pthread_setspecific(*(pthread_key_t *)key, key);
	return NULL;
}

static int in_comparison(const void *a, const void *b)
{
	leak(4000);
	return *(const int *)a - *(const int *)b;
}

static void in_handler(void)
{
	leak(5000);
}

int main(void)
{
	int numbers[] = { 2, 1 };
	pthread_t thread;
	pthread_key_t key;

	pthread_key_create(&key, in_key);
	pthread_create(&thread, NULL, in_thread, &key);
	pthread_join(thread, NULL);
	qsort(numbers, 2, sizeof(numbers[0]), in_comparison);
	atexit(in_handler);
	leak(6000);
	return 0;
}
