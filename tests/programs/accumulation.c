/* SPDX-License-Identifier: MIT
 *
 * Keeps blocks while it works, and frees all of them before it ends. Not linked to gpuleak.
 */
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "vmm.h"

#define STEPS 200
#define THREADS 4
#define BYTES ((size_t)4096)

/* Device memory, or virtual memory of GRAIN bytes. */
struct block {
	CUdeviceptr address;
	vmm_handle handle; /* of virtual memory; 0: it was released */
};

static struct block kept[THREADS][STEPS];
static CUcontext context;
static bool is_virtual;
static bool keeps_handles; /* of virtual memory, until it ends */

static const struct properties on_device = { .type = 1, .location = { ON_DEVICE, 0 } };

/* The driver may refuse the first call. */
#define MUST_END(call)                                                                       \
	do {                                                                                 \
		if ((call) != 0)                                                             \
			must((call), #call);                                                 \
	} while (0)

static void map_block(struct block *block)
{
	block->address = reserve(GRAIN);
	map(block->address, GRAIN, block->handle);
	if (keeps_handles)
		return;
	MUST_END(cuMemRelease(block->handle));
	block->handle = 0;
}

static struct block work(void)
{
	struct block block = { 0 };

	if (!is_virtual) {
		must(cuMemAlloc_v2(&block.address, BYTES), "cuMemAlloc_v2");
		return block;
	}
	must(cuMemCreate(&block.handle, GRAIN, &on_device, 0), "cuMemCreate");
	map_block(&block);
	return block;
}

static struct block result(void)
{
	struct block block = { 0 };

	if (!is_virtual) {
		must(cuMemAlloc_v2(&block.address, BYTES), "cuMemAlloc_v2"); /* @result */
		return block;
	}
	must(cuMemCreate(&block.handle, GRAIN, &on_device, 0), "cuMemCreate"); /* @created */
	map_block(&block);
	return block;
}

static void release(struct block block)
{
	if (!is_virtual) {
		MUST_END(cuMemFree_v2(block.address));
		return;
	}
	MUST_END(cuMemUnmap(block.address, GRAIN));
	if (block.handle)
		MUST_END(cuMemRelease(block.handle));
	MUST_END(cuMemAddressFree(block.address, GRAIN));
}

static void *steps(void *place)
{
	struct block *results = place;

	must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
	for (int i = 0; i < STEPS; i++) {
		struct block block = work();

		if (results)
			results[i] = result();
		else
			release(result());
		release(block);
	}
	return NULL;
}

/* Frees every part of what each thread kept, beside the other threads that run it. */
static void *drop(void *part)
{
	size_t first = (size_t)((struct block(*)[STEPS])part - kept);

	must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
	for (int thread = 0; thread < THREADS; thread++)
		for (size_t i = first; i < STEPS; i += THREADS)
			if (kept[thread][i].address)
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

/* Usage: STORY [MEMORY]. STORY: kept, left, one-left, clean, threads or context. MEMORY: virtual,
 * or mapped: virtual memory whose handle is released as soon as it is mapped. */
int main(int argc, char **argv)
{
	const char *story = argc > 1 ? argv[1] : "";

	keeps_handles = argc > 2 && strcmp(argv[2], "virtual") == 0;
	is_virtual = keeps_handles || (argc > 2 && strcmp(argv[2], "mapped") == 0);
	must(cuInit(0), "cuInit");
	must(cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
	must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
	if (strcmp(story, "threads") == 0)
		in_threads(steps);
	else
		steps(strcmp(story, "clean") == 0 ? NULL : kept[0]);
	if (strcmp(story, "one-left") == 0)
		kept[0][STEPS - 1].address = 0;
	if (strcmp(story, "context") == 0)
		must(cuDevicePrimaryCtxReset_v2(0), "cuDevicePrimaryCtxReset_v2");
	else if (strcmp(story, "clean") != 0 && strcmp(story, "left") != 0)
		in_threads(drop);
	return 0;
}
