/* SPDX-License-Identifier: MIT
 *
 * Keeps blocks while it works, and frees all of them before it ends. Not linked to gpuleak.
 */
#include <pthread.h>
#include <string.h>

#include "cu.h"

#define STEPS 200
#define THREADS 4
#define BYTES ((size_t)4096)

static CUdeviceptr kept[THREADS][STEPS];
static CUcontext context;

static CUdeviceptr work(void)
{
	CUdeviceptr address;

	must(cuMemAlloc_v2(&address, BYTES), "cuMemAlloc_v2"); /* @work */
	return address;
}

static CUdeviceptr result(void)
{
	CUdeviceptr address;

	must(cuMemAlloc_v2(&address, BYTES), "cuMemAlloc_v2"); /* @result */
	return address;
}

/* The driver may refuse the first call. */
static void release(CUdeviceptr address)
{
	if (cuMemFree_v2(address) != 0)
		must(cuMemFree_v2(address), "cuMemFree_v2");
}

static void *steps(void *place)
{
	CUdeviceptr *results = place;

	must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
	for (int i = 0; i < STEPS; i++) {
		CUdeviceptr address = work();

		if (results)
			results[i] = result();
		else
			release(result());
		release(address);
	}
	return NULL;
}

/* Frees every part of what each thread kept, beside the other threads that run it. */
static void *drop(void *part)
{
	size_t first = (size_t)((CUdeviceptr(*)[STEPS])part - kept);

	must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
	for (int thread = 0; thread < THREADS; thread++)
		for (size_t i = first; i < STEPS; i += THREADS)
			if (kept[thread][i])
				release(kept[thread][i]);
	return NULL;
}

static void in_threads(void *(*function)(void *))
{
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		must(pthread_create(&threads[i], NULL, function, kept[i]), "pthread_create");
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

/* Usage: kept, one-left, clean, threads or context. */
int main(int argc, char **argv)
{
	const char *story = argc > 1 ? argv[1] : "";

	must(cuInit(0), "cuInit");
	must(cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
	must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
	if (strcmp(story, "threads") == 0)
		in_threads(steps);
	else
		steps(strcmp(story, "clean") == 0 ? NULL : kept[0]);
	if (strcmp(story, "one-left") == 0)
		kept[0][STEPS - 1] = 0;
	if (strcmp(story, "context") == 0)
		must(cuDevicePrimaryCtxReset_v2(0), "cuDevicePrimaryCtxReset_v2");
	else if (strcmp(story, "clean") != 0)
		in_threads(drop);
	return 0;
}
