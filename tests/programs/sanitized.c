/* SPDX-License-Identifier: MIT
 *
 * Leaks one GPU block and then makes the mistake that its argument names, for the sanitizer that
 * it is built with. Without an argument it makes none.
 */
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cu.h"

static int shared_count;
static void *volatile kept;

static void leak_gpu(void)
{
	CUdeviceptr lost;

	must(cuMemAlloc_v2(&lost, 4096), "cuMemAlloc_v2"); /* @leak */
}

static int use_after_free(void)
{
	volatile char *block = malloc(32);

	free((void *)block);
	return block[3]; /* the mistake */
}

static int leak_host(void)
{
	kept = malloc(77);
	kept = NULL;
	return 0;
}

static void *count(void *unused)
{
	shared_count++;
	return unused;
}

static int race(void)
{
	pthread_t threads[2];

	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, count, NULL);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	return 0;
}

static int overflow(void)
{
	volatile int most = INT_MAX;

	return most + 1 == INT_MIN ? 0 : 1;
}

static const struct {
	const char *name;
	int (*make)(void);
} mistakes[] = {
	{ "use-after-free", use_after_free },
	{ "leak", leak_host },
	{ "race", race },
	{ "overflow", overflow },
};

int main(int argc, char **argv)
{
	CUcontext context;

	must(cuInit(0), "cuInit");
	must(cuCtxCreate_v2(&context, 0, 0), "cuCtxCreate_v2");
	leak_gpu(); /* @main */
	puts("worked");
	fflush(stdout);
	for (size_t i = 0; argc > 1 && i < sizeof(mistakes) / sizeof(mistakes[0]); i++)
		if (strcmp(argv[1], mistakes[i].name) == 0)
			return mistakes[i].make();
	return 0;
}
