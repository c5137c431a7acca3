/* SPDX-License-Identifier: MIT
 *
 * Allocates and frees as its arguments say, word by word, so that somebody holds the memory at its
 * peak. Bytes are numbers, also as 12m (MiB). All blocks come from one function, take().
 *
 *   weights:N, workspace:N   keeps a block of N bytes
 *   free:I                   frees block number I (from 0)
 *   churn:TIMES:N            allocates N bytes and frees them, so often
 *   grow:TIMES:N             keeps so many blocks of N bytes
 *   pinned:N, unpin          keeps locked host memory; frees the last one
 *   create:N                 keeps physical memory      map  maps the last one, and releases it
 *   unmap                    ends the mapping
 *   beside:N, beside-free:I  as `workspace` and `free`, in another thread, which then ends
 *   stay:N                   starts N threads that make a call and then wait for the end
 *   device:N                 from here on, on device N
 *   kill                     ends by SIGKILL
 */
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "vmm.h"

#define NOINLINE __attribute__((noinline))

CUresult cuCtxGetCurrent(CUcontext *context);

static CUdeviceptr kept[200000];
static int count;
static void *pinned[16];
static int pinned_count;
static vmm_handle physical;
static size_t physical_bytes;
static CUdeviceptr mapped;
static CUcontext current;

static size_t number(const char *text)
{
	char *end;
	size_t bytes = strtoull(text, &end, 10);

	return *end == 'm' ? bytes << 20 : bytes;
}

NOINLINE static CUdeviceptr take(size_t bytes)
{
	CUdeviceptr address;

	must(cuMemAlloc_v2(&address, bytes), "take"); /* @take */
	return address;
}

NOINLINE static void weights(size_t bytes)
{
	kept[count++] = take(bytes); /* @weights */
}

NOINLINE static void workspace(size_t bytes)
{
	kept[count++] = take(bytes); /* @workspace */
}

NOINLINE static void grow(size_t times, size_t bytes)
{
	while (times--)
		kept[count++] = take(bytes); /* @grow */
}

NOINLINE static void churn(size_t times, size_t bytes)
{
	while (times--)
		must(cuMemFree_v2(take(bytes)), "churn"); /* @churn */
}

static void give(size_t which)
{
	must(cuMemFree_v2(kept[which]), "free");
}

static void pin(size_t bytes)
{
	must(cuMemHostAlloc(&pinned[pinned_count++], bytes, 0), "pinned"); /* @pin */
}

static void unpin(size_t unused)
{
	(void)unused;
	must(cuMemFreeHost(pinned[--pinned_count]), "unpin");
}

static void create_physical(size_t bytes)
{
	physical = create_on((struct location){ ON_DEVICE, 0 }, 0, bytes); /* @physical */
	physical_bytes = bytes;
}

static void map_physical(size_t unused)
{
	(void)unused;
	mapped = reserve(physical_bytes);
	map(mapped, physical_bytes, physical); /* @mapping */
	must(cuMemRelease(physical), "release");
}

static void unmap_physical(size_t unused)
{
	(void)unused;
	must(cuMemUnmap(mapped, physical_bytes), "unmap");
	must(cuMemAddressFree(mapped, physical_bytes), "address");
}

static void set_device(size_t which)
{
	must(cuDevicePrimaryCtxRetain(&current, (CUdevice)which), "retain");
	must(cuCtxSetCurrent(current), "current");
}

/* ---- threads ---- */

struct work {
	void (*function)(size_t argument);
	size_t argument;
};

static void *work(void *data)
{
	const struct work *what = data;

	must(cuCtxSetCurrent(current), "current");
	what->function(what->argument);
	return NULL;
}

static void in_thread(void (*function)(size_t argument), size_t argument)
{
	struct work what = { function, argument };
	pthread_t thread;

	pthread_create(&thread, NULL, work, &what);
	pthread_join(thread, NULL);
}

static void beside(size_t bytes)
{
	in_thread(workspace, bytes);
}

static void beside_free(size_t which)
{
	in_thread(give, which);
}

static pthread_barrier_t all_called;

static void *stay_thread(void *unused)
{
	must(cuCtxSetCurrent(current), "current");
	churn(1, 1);
	pthread_barrier_wait(&all_called);
	pause();
	return unused;
}

static void stay(size_t threads)
{
	pthread_t thread;

	pthread_barrier_init(&all_called, NULL, (unsigned int)threads + 1);
	for (size_t i = 0; i < threads; i++)
		pthread_create(&thread, NULL, stay_thread, NULL);
	pthread_barrier_wait(&all_called);
}

static void be_killed(size_t unused)
{
	(void)unused;
	raise(SIGKILL);
}

/* ---- words ---- */

static void run(const char *word, size_t first, size_t second)
{
	static const struct {
		const char *name;
		void (*function)(size_t argument);
	} plain[] = {
		{ "weights", weights }, { "workspace", workspace }, { "free", give },
		{ "pinned", pin }, { "unpin", unpin }, { "create", create_physical },
		{ "map", map_physical }, { "unmap", unmap_physical }, { "beside", beside },
		{ "beside-free", beside_free }, { "stay", stay }, { "device", set_device },
		{ "kill", be_killed },
	};

	for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++)
		if (strcmp(word, plain[i].name) == 0) {
			plain[i].function(first); /* @run */
			return;
		}
	if (strcmp(word, "churn") == 0)
		churn(first, second); /* @run_churn */
	else if (strcmp(word, "grow") == 0)
		grow(first, second); /* @run_grow */
	else
		must(2, word);
}

int main(int argc, char **argv)
{
	begin();
	must(cuCtxGetCurrent(&current), "current");
	for (int i = 1; i < argc; i++) {
		char *first = strchr(argv[i], ':'), *second = first ? strchr(first + 1, ':') : NULL;

		if (first)
			*first++ = '\0';
		if (second)
			*second++ = '\0';
		run(argv[i], first ? number(first) : 0, second ? number(second) : 0);
	}
	return 0;
}
