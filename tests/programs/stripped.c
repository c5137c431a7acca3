/* SPDX-License-Identifier: MIT
 *
 * A program without symbols that leaks in main and, for each argument, at one more place: in a
 * function of its own, then in a thread.
 */
#include <pthread.h>

#include "cu.h"

static __attribute__((noinline)) void leak(size_t bytes)
{
	CUdeviceptr address;

	must(cuMemAlloc_v2(&address, bytes), "alloc");
}

static void *in_thread(void *context)
{
	must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
	leak(700);
	return NULL;
}

int main(int argc, char **argv)
{
	CUcontext context;
	pthread_t thread;

	(void)argv;
	begin();
	must(cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
	for (int i = 0; i < 2; i++)
		leak(1000);
	if (argc > 1)
		leak(600);
	if (argc > 2) {
		pthread_create(&thread, NULL, in_thread, context);
		pthread_join(thread, NULL);
	}
	return 0;
}
