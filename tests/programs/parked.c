/* SPDX-License-Identifier: MIT
 *
 * Uses memory pools of the driver as its arguments say, word by word. Bytes are numbers, also as
 * 12m (MiB).
 *
 *   keep             the present pool returns nothing by itself
 *   take:N           allocates N bytes from it, stream-ordered; must succeed
 *   back             frees the last block of it, and waits
 *   own              makes a pool, which is the present one from here on
 *   destroy          destroys it; the default pool is the present one
 *   want:N           calls cuMemAlloc_v2() and prints its result; keeps the block
 *   figures          prints what the driver reports of the present pool: reserved and used bytes
 *   capture, over    begins to capture another stream, in global mode; ends that and prints how
 *   ms:N             sleeps
 *   exit:N           ends with status N
 */
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "cu.h"

CUresult cuMemPoolGetAttribute(void *pool, int attribute, void *value);
CUresult cuMemPoolSetAttribute(void *pool, int attribute, void *value);
CUresult cuStreamSynchronize(void *stream);

enum { THRESHOLD = 4, RESERVED = 5, USED = 7 };

static CUdeviceptr blocks[16];
static int count;
static void *standard, *pool, *stream, *captured;

static size_t number(const char *text)
{
	char *end;
	size_t bytes = strtoull(text, &end, 10);

	return *end == 'm' ? bytes << 20 : bytes;
}

static void take(size_t bytes)
{
	must(pool == standard ? cuMemAllocAsync(&blocks[count++], bytes, stream)
			      : cuMemAllocFromPoolAsync(&blocks[count++], bytes, pool, stream),
	     "take");
}

static void want(size_t bytes)
{
	CUdeviceptr address;

	printf("want %d\n", cuMemAlloc_v2(&address, bytes)); /* @want */
}

static void figures(void)
{
	uint64_t reserved, used;

	must(cuMemPoolGetAttribute(pool, RESERVED, &reserved), "reserved");
	must(cuMemPoolGetAttribute(pool, USED, &used), "used");
	printf("reserved %llu used %llu\n", (unsigned long long)reserved,
	       (unsigned long long)used);
}

static void make_pool(void)
{
	int properties[22] = { 1, 0, 1, 0 };

	must(cuMemPoolCreate(&pool, properties), "pool");
}

static void obey(const char *word)
{
	const char *value = strchr(word, ':') ? strchr(word, ':') + 1 : "";
	uint64_t all = UINT64_MAX;
	void *graph;

	if (strcmp(word, "keep") == 0)
		must(cuMemPoolSetAttribute(pool, THRESHOLD, &all), "keep");
	else if (strncmp(word, "take:", 5) == 0)
		take(number(value));
	else if (strcmp(word, "back") == 0)
		must(cuMemFreeAsync(blocks[--count], stream) ?: cuStreamSynchronize(stream),
		     "back");
	else if (strcmp(word, "own") == 0)
		make_pool();
	else if (strcmp(word, "destroy") == 0)
		must(cuMemPoolDestroy(pool), "destroy"), pool = standard;
	else if (strncmp(word, "want:", 5) == 0)
		want(number(value));
	else if (strcmp(word, "figures") == 0)
		figures();
	else if (strcmp(word, "capture") == 0)
		must(cuStreamBeginCapture_v2(captured, 0), "capture");
	else if (strcmp(word, "over") == 0)
		printf("over %d\n", cuStreamEndCapture(captured, &graph));
	else if (strncmp(word, "ms:", 3) == 0)
		usleep((useconds_t)number(value) * 1000);
	else if (strncmp(word, "exit:", 5) == 0)
		exit((int)number(value));
	else
		exit(2);
}

int main(int argc, char **argv)
{
	begin();
	must(cuStreamCreate(&stream, 1), "stream");
	must(cuStreamCreate(&captured, 1), "stream");
	must(cuDeviceGetDefaultMemPool(&standard, 0), "default pool");
	pool = standard;
	for (int i = 1; i < argc; i++)
		obey(argv[i]);
	return 0;
}
