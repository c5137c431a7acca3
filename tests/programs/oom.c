/* SPDX-License-Identifier: MIT
 *
 * Runs out of memory as its arguments say, word by word, and prints the driver's answer to each
 * request. Bytes are numbers, also as 12m (MiB).
 *
 *   weights:N, cache:N  keeps a block; it must succeed     drop  frees the last one
 *   want:N              asks for a block and prints the answer; keeps it if there is one
 *   async:N, pinned:N, physical:N   the same by other calls
 *   again:TIMES:N       asks so often, and frees what it gets
 *   growing:TIMES:N     likewise, for N, N + 1, N + 2 ... bytes
 *   small:TIMES:N       keeps so many blocks of N bytes, from 64 places
 *   beside:N            asks as `want` does, in another thread
 *   map:N               maps physical memory of N bytes, which its handle counts
 *   time:N              asks for N bytes and prints how many microseconds of CPU that took
 *   child               forks: the child goes on with the words, the parent waits and ends
 *   threads:N:BYTES     N threads ask for BYTES, a thousand times each, and hold nothing
 *   files:N             limits the size of files (RLIMIT_FSIZE); 0 removes the limit
 *   signal:N            asks for N bytes in a signal handler
 *   device:N            from here on, on device N
 *   capture             begins to capture a stream         ms:N  sleeps
 *   nvml:OWN:ALL        NVML's stand-in reports OWN bytes of this process, ALL on the device;
 *                       0: it does not support that figure
 *   sampled             waits until `gpuleak run` has sampled NVML's stand-in
 *   exit:N, leave:N (by _exit), abort
 */
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "vmm.h"

#ifdef __clang__
#define NOINLINE __attribute__((noinline))
#else
#define NOINLINE __attribute__((noinline, noclone))
#endif

static CUdeviceptr kept[4096];
static int count;

static size_t number(const char *text)
{
	char *end;
	size_t bytes = strtoull(text, &end, 10);

	return *end == 'm' ? bytes << 20 : bytes;
}

static void answer(const char *what, CUresult r)
{
	printf("%s %d\n", what, r);
	fflush(stdout);
}

static void keep(CUresult r, CUdeviceptr address)
{
	if (r == 0)
		kept[count++] = address;
}

NOINLINE static void weights(size_t bytes)
{
	CUdeviceptr address;

	must(cuMemAlloc_v2(&address, bytes), "weights"); /* @weights */
	kept[count++] = address;
}

NOINLINE static void cache(size_t bytes)
{
	CUdeviceptr address;

	must(cuMemAlloc_v2(&address, bytes), "cache"); /* @cache */
	kept[count++] = address;
}

NOINLINE static void want(size_t bytes)
{
	CUdeviceptr address;
	CUresult r = cuMemAlloc_v2(&address, bytes); /* @want */

	answer("want", r);
	keep(r, address);
}

NOINLINE static void want_ordered(size_t bytes)
{
	CUdeviceptr address;
	CUresult r = cuMemAllocAsync(&address, bytes, NULL); /* @async */

	answer("async", r);
	keep(r, address);
}

NOINLINE static void want_pinned(size_t bytes)
{
	void *address;

	answer("pinned", cuMemHostAlloc(&address, bytes, 0)); /* @pinned */
}

static struct properties on_device(void)
{
	return (struct properties){ 1, 0, { ON_DEVICE, 0 }, NULL, { 0 } };
}

NOINLINE static void want_physical(size_t bytes)
{
	const struct properties properties = on_device();
	vmm_handle handle;

	answer("physical", cuMemCreate(&handle, bytes, &properties, 0)); /* @physical */
}

NOINLINE static void map_physical(size_t bytes)
{
	const struct properties properties = on_device();
	CUdeviceptr address;
	vmm_handle handle;

	must(cuMemAddressReserve(&address, bytes, 0, 0, 0), "reserve");
	must(cuMemCreate(&handle, bytes, &properties, 0), "create"); /* @map */
	must(cuMemMap(address, bytes, 0, handle, 0), "map");
}

NOINLINE static void again(long times, size_t bytes, size_t more)
{
	for (long i = 0; i < times; i++, bytes += more) {
		CUdeviceptr address;

		if (cuMemAlloc_v2(&address, bytes) == 0) /* @again */
			cuMemFree_v2(address);
	}
}

static CUresult (*volatile allocate)(CUdeviceptr *, size_t) = cuMemAlloc_v2;

/* 64 places: each allocation of these functions returns to another address. */
#define PLACE(bytes) keep_small(allocate(&address, bytes)),
#define FOUR(x) x x x x
static void keep_small(CUresult r)
{
	must(r, "small");
}
NOINLINE static void small(long times, size_t bytes)
{
	CUdeviceptr address;

	for (long i = 0; i < times; i += 64)
		FOUR(FOUR(FOUR(PLACE(bytes)))) (void)0;
}

static void *want_beside(void *bytes)
{
	CUcontext context;

	must(cuDevicePrimaryCtxRetain(&context, 0), "retain");
	must(cuCtxSetCurrent(context), "current");
	want((size_t)bytes);
	return NULL;
}

static void beside(size_t bytes)
{
	pthread_t thread;

	pthread_create(&thread, NULL, want_beside, (void *)bytes);
	pthread_join(thread, NULL);
}

static size_t thread_bytes;
static void *ask_often(void *unused)
{
	CUcontext context;

	must(cuDevicePrimaryCtxRetain(&context, 0), "retain");
	must(cuCtxSetCurrent(context), "current");
	again(1000, thread_bytes, 1);
	return unused;
}

static void threads(size_t number, size_t bytes)
{
	pthread_t list[64];

	thread_bytes = bytes;
	for (size_t i = 0; i < number; i++)
		pthread_create(&list[i], NULL, ask_often, NULL);
	for (size_t i = 0; i < number; i++)
		pthread_join(list[i], NULL);
}

static size_t signal_bytes;
static void ask_in_handler(int number)
{
	(void)number;
	want(signal_bytes);
}

static void in_handler(size_t bytes)
{
	signal_bytes = bytes;
	signal(SIGUSR1, ask_in_handler);
	raise(SIGUSR1);
}

static void limit_files(size_t bytes)
{
	struct rlimit limit;

	getrlimit(RLIMIT_FSIZE, &limit);
	limit.rlim_cur = bytes ? bytes : limit.rlim_max;
	setrlimit(RLIMIT_FSIZE, &limit);
}

/* Returns true in the child. The parent ends as the child does. */
static int is_child(void)
{
	pid_t pid = fork();
	int status = 0;

	if (pid == 0)
		return 1;
	waitpid(pid, &status, 0);
	exit(WIFEXITED(status) ? WEXITSTATUS(status) : 99);
}

static void timed(size_t bytes)
{
	struct timespec from, to;
	CUdeviceptr address;
	CUresult r;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
	r = cuMemAlloc_v2(&address, bytes);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
	printf("time %d %ld\n", r,
	       (to.tv_sec - from.tv_sec) * 1000000 + (to.tv_nsec - from.tv_nsec) / 1000);
}

static void capture(void)
{
	void *stream;

	must(cuStreamCreate(&stream, 1), "stream");
	must(cuStreamBeginCapture_v2(stream, 2), "capture");
}

/* What the driver reserves is no process's. */
#define RESERVED ((size_t)600 << 20)

static void tell_nvml(size_t own, size_t all)
{
	const char *path = getenv("STANDIN_NVML");
	FILE *file = path ? fopen(path, "w") : NULL;

	if (!file)
		exit(1);
	if (all)
		fprintf(file, "used 0 %zu\nreserved 0 %zu\n", all + RESERVED, RESERVED);
	else
		fprintf(file, "answer nvmlDeviceGetMemoryInfo 3\n");
	if (own)
		fprintf(file, "process compute 0 %d %zu\n", (int)getpid(), own);
	fclose(file);
}

static void pause_ms(long ms)
{
	const struct timespec pause = { ms / 1000, ms % 1000 * 1000000 };

	nanosleep(&pause, NULL);
}

static unsigned int nvml_calls(void)
{
	char path[4096], line[64];
	unsigned int calls = 0;
	FILE *file;

	snprintf(path, sizeof(path), "%s.calls", getenv("STANDIN_NVML"));
	file = fopen(path, "r");
	while (file && fgets(line, sizeof(line), file))
		calls += strcmp(line, "nvmlDeviceGetMemoryInfo\n") == 0;
	if (file)
		fclose(file);
	return calls;
}

/* At least one whole sample is taken while nothing changes. */
static void be_sampled(void)
{
	unsigned int wanted = nvml_calls() + 4;

	while (nvml_calls() < wanted) /* the test limits the time */
		pause_ms(1);
}

static void on_device_number(size_t number)
{
	CUcontext context;

	must(cuDevicePrimaryCtxRetain(&context, (CUdevice)number), "retain");
	must(cuCtxSetCurrent(context), "current");
}

static void drop(void)
{
	must(cuMemFree_v2(kept[--count]), "drop");
}

static void run(const char *word, size_t first, size_t second)
{
	static const struct {
		const char *name;
		void (*function)(size_t bytes);
	} plain[] = {
		{ "weights", weights }, { "cache", cache },	    { "want", want },
		{ "async", want_ordered }, { "pinned", want_pinned }, { "physical", want_physical },
		{ "map", map_physical },  { "beside", beside },	    { "time", timed },
		{ "files", limit_files }, { "signal", in_handler }, { "device", on_device_number },
	};

	for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++)
		if (strcmp(word, plain[i].name) == 0) {
			plain[i].function(first); /* @run */
			return;
		}
	if (strcmp(word, "again") == 0)
		again((long)first, second, 0);
	else if (strcmp(word, "growing") == 0)
		again((long)first, second, 1);
	else if (strcmp(word, "small") == 0)
		small((long)first, second);
	else if (strcmp(word, "threads") == 0)
		threads(first, second);
	else if (strcmp(word, "nvml") == 0)
		tell_nvml(first, second);
	else if (strcmp(word, "sampled") == 0)
		be_sampled();
	else if (strcmp(word, "ms") == 0)
		pause_ms((long)first);
	else if (strcmp(word, "exit") == 0)
		exit((int)first);
	else if (strcmp(word, "leave") == 0)
		_exit((int)first);
	else
		must(2, word);
}

int main(int argc, char **argv)
{
	begin();
	for (int i = 1; i < argc; i++) {
		char *first = strchr(argv[i], ':'), *second = first ? strchr(first + 1, ':') : NULL;

		if (first)
			*first++ = '\0';
		if (second)
			*second++ = '\0';
		if (strcmp(argv[i], "drop") == 0)
			drop();
		else if (strcmp(argv[i], "capture") == 0)
			capture();
		else if (strcmp(argv[i], "child") == 0)
			is_child();
		else if (strcmp(argv[i], "abort") == 0)
			abort();
		else
			run(argv[i], first ? number(first) : 0, second ? number(second) : 0);
	}
	return 0;
}
