/* SPDX-License-Identifier: MIT
 *
 * Blocks that are parts of larger ones: how often the driver is asked, and for how much. Every
 * line says how many allocations it was asked for so far, and what the pool has of it now.
 */
#include <inttypes.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "cu.h"
#include "gpuleak.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define COUNT 256

static CUcontext context;
static CUdeviceptr block[COUNT];
static int freed;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t change = PTHREAD_COND_INITIALIZER;

static void tell(const char *when)
{
	struct gpuleak_pool_stats stats = { .size = sizeof(stats) };

	must(gpuleak_pool_stats(&stats), "gpuleak_pool_stats");
	printf("%s: native %" PRIu64 " reserved %" PRIu64 " used %" PRIu64 " waste %" PRIu64 "\n",
	       when, stats.native_allocations, stats.reserved_bytes / MIB, stats.used_bytes / MIB,
	       stats.waste_bytes / MIB);
}

static CUdeviceptr make(size_t bytes)
{
	CUdeviceptr address;

	must(cuMemAlloc_v2(&address, bytes), "cuMemAlloc_v2");
	return address;
}

static void make_all(int count, size_t bytes)
{
	for (int i = 0; i < count; i++)
		block[i] = make(bytes);
}

static void free_all(int count)
{
	for (int i = 0; i < count; i++)
		must(cuMemFree_v2(block[i]), "cuMemFree_v2");
}

/* What was many sizes becomes room for one large block, all of it or between those that stay. */
static int main_gather(void)
{
	CUdeviceptr large;

	for (int i = 0; i < 100; i++)
		block[i] = make(MIB / 2 + (size_t)(i * 37 % 100) * KIB);
	tell("many");
	free_all(100);
	large = make(62 * MIB);
	tell("large");
	must(cuMemFree_v2(large), "cuMemFree_v2");
	make_all(63, MIB);
	for (int i = 0; i < 62; i += 6)
		for (int j = 0; j < 3; j++)
			must(cuMemFree_v2(block[i + j]), "cuMemFree_v2");
	for (int i = 0; i < 8; i++)
		block[100 + i] = make(3 * MIB);
	tell("between");
	return 0;
}

static void *other(void *unused)
{
	must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
	make_all(240, 256 * KIB);
	free_all(240);
	pthread_mutex_lock(&lock);
	freed = 1;
	pthread_cond_signal(&change);
	while (freed == 1)
		pthread_cond_wait(&change, &lock);
	pthread_mutex_unlock(&lock);
	return unused;
}

/* Another thread lives on and keeps what it freed. */
static int main_others(void)
{
	pthread_t thread;

	must(pthread_create(&thread, NULL, other, NULL), "pthread_create");
	pthread_mutex_lock(&lock);
	while (!freed)
		pthread_cond_wait(&change, &lock);
	pthread_mutex_unlock(&lock);
	make(62 * MIB);
	tell("large");
	pthread_mutex_lock(&lock);
	freed = 2;
	pthread_cond_signal(&change);
	pthread_mutex_unlock(&lock);
	pthread_join(thread, NULL);
	return 0;
}

static int main_sizes(void)
{
	CUdeviceptr large;

	make_all(20, 3 * MIB);
	tell("3 MiB");
	large = make(40 * MIB);
	tell("40 MiB");
	must(cuMemFree_v2(large), "cuMemFree_v2");
	make(1100 * KIB);
	make(39 * MIB);
	tell("its parts");
	make(65 * MIB);
	tell("65 MiB");
	return 0;
}

/* All is freed and made again: what is kept is what is needed next. */
static int main_again(void)
{
	for (int round = 0; round < 200; round++) {
		make_all(30, (size_t)(3 + round % 2) * MIB);
		free_all(30);
	}
	tell("rounds");
	printf("trimmed %zu\n", gpuleak_pool_trim() / MIB);
	tell("trimmed");
	return 0;
}

/* Long after that the program goes on, with little. */
static int main_decay(void)
{
	make_all(20, 3 * MIB);
	free_all(20);
	tell("freed");
	sleep(3);
	for (int i = 0; i < 3000; i++)
		must(cuMemFree_v2(make(KIB)), "cuMemFree_v2");
	tell("later");
	return 0;
}

static uint64_t waste_of(CUdeviceptr *at, size_t bytes)
{
	struct gpuleak_pool_stats stats = { .size = sizeof(stats) };

	*at = make(bytes);
	must(gpuleak_pool_stats(&stats), "gpuleak_pool_stats");
	return stats.waste_bytes / KIB;
}

/* A part serves a smaller request: whole where there is plenty, else what is asked for. */
static int main_plenty(void)
{
	CUdeviceptr first = make(1000 * KIB), plenty, little;
	uint64_t whole, cut;

	must(cuMemFree_v2(first), "cuMemFree_v2");
	whole = waste_of(&plenty, 900 * KIB);
	must(cuMemFree_v2(plenty), "cuMemFree_v2");
	make_all(55, MIB);
	tell("filled");
	cut = waste_of(&little, 900 * KIB);
	printf("the same %d %d, waste %" PRIu64 " %" PRIu64 " KiB\n", plenty == first,
	       little == first, whole, cut);
	return 0;
}

/* 1,000 live blocks of up to 1 MiB, each freed and made again some 50 times, at random. */
static int main_mixed(void)
{
	static CUdeviceptr at[1000];
	static size_t size[1000];
	struct gpuleak_pool_stats stats = { .size = sizeof(stats) };
	uint64_t random = 1, live = 0, peak = 0;

	for (int i = 0; i < 50000; i++) {
		int which = i < 1000 ? i : (int)((random >> 33) % 1000);

		random = random * 6364136223846793005u + 1442695040888963407u;
		if (at[which])
			must(cuMemFree_v2(at[which]), "cuMemFree_v2");
		live -= size[which];
		size[which] = (size_t)(random >> 33) % MIB + 1;
		live += size[which];
		at[which] = make(size[which]);
		peak = live > peak ? live : peak;
	}
	must(gpuleak_pool_stats(&stats), "gpuleak_pool_stats");
	printf("reserved %" PRIu64 " %% of the most that was asked for\n",
	       stats.reserved_bytes * 100 / peak);
	return 0;
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "";

	must(cuInit(0), "cuInit");
	must(cuCtxCreate_v2(&context, 0, 0), "cuCtxCreate_v2");
	if (strcmp(name, "gather") == 0)
		return main_gather();
	if (strcmp(name, "others") == 0)
		return main_others();
	if (strcmp(name, "sizes") == 0)
		return main_sizes();
	if (strcmp(name, "decay") == 0)
		return main_decay();
	if (strcmp(name, "plenty") == 0)
		return main_plenty();
	if (strcmp(name, "mixed") == 0)
		return main_mixed();
	return main_again();
}
