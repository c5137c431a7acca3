/* SPDX-License-Identifier: MIT
 *
 * Blocks that one thread allocates and another frees: what serves whom, and how often a thread is
 * held up for another one, counted by the barriers on all processors (syscall() below). The two
 * threads take turns, so each figure is exact.
 */
#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>

#include "cu.h"
#include "gpuleak.h"

#define MIB ((size_t)1 << 20)
enum { MANY = 40, ROUNDS = 50 };

static _Atomic int barriers;
static CUcontext context;
static CUdeviceptr at[MANY];

static long ask_kernel(long number, const long *argument)
{
#ifdef __x86_64__
	register long d __asm__("r10") = argument[3];
	register long e __asm__("r8") = argument[4];
	register long f __asm__("r9") = argument[5];
	long ret;

	__asm__ volatile("syscall" : "=a"(ret)
			 : "a"(number), "D"(argument[0]), "S"(argument[1]), "d"(argument[2]),
			   "r"(d), "r"(e), "r"(f) : "rcx", "r11", "memory");
	return ret;
#else
	register long which __asm__("x8") = number;
	register long a __asm__("x0") = argument[0];
	register long b __asm__("x1") = argument[1];
	register long c __asm__("x2") = argument[2];
	register long d __asm__("x3") = argument[3];
	register long e __asm__("x4") = argument[4];
	register long f __asm__("x5") = argument[5];

	__asm__ volatile("svc 0" : "+r"(a)
			 : "r"(which), "r"(b), "r"(c), "r"(d), "r"(e), "r"(f) : "memory");
	return a;
#endif
}

/* In place of libc's, for the library above all. */
long syscall(long number, ...);
long syscall(long number, ...)
{
	long argument[6], ret;
	va_list list;

	va_start(list, number);
	for (int i = 0; i < 6; i++)
		argument[i] = va_arg(list, long);
	va_end(list);
	if (number == SYS_membarrier && (int)argument[0] == MEMBARRIER_CMD_PRIVATE_EXPEDITED)
		barriers++;
	ret = ask_kernel(number, argument);
	if (ret > -4096 && ret < 0) {
		errno = (int)-ret;
		return -1;
	}
	return ret;
}

static void take(int count)
{
	for (int i = 0; i < count; i++)
		must(cuMemAlloc_v2(&at[i], MIB), "cuMemAlloc_v2");
}

static void give(int count)
{
	for (int i = 0; i < count; i++)
		must(cuMemFree_v2(at[i]), "cuMemFree_v2");
}

/* BARRIERS: since the last time. */
static void tell(const char *when)
{
	struct gpuleak_pool_stats stats = { .size = sizeof(stats) };
	int since = barriers;

	must(gpuleak_pool_stats(&stats), "gpuleak_pool_stats");
	printf("%s: native %" PRIu64 " hits %" PRIu64 " frees %" PRIu64 " reserved %" PRIu64
	       " barriers %d\n", when, stats.native_allocations, stats.hits, stats.frees,
	       stats.reserved_bytes / MIB, since);
	barriers = 0; /* those of the question, too */
}

/* ---- the other thread does what it is told ---- */

static struct {
	pthread_t thread;
	pthread_barrier_t line;
	void (*work)(int);
	int count;
} other;

static void *serve(void *unused)
{
	must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
	for (;;) {
		pthread_barrier_wait(&other.line);
		if (!other.work)
			return unused;
		other.work(other.count);
		pthread_barrier_wait(&other.line);
	}
}

static void begin_other(void)
{
	must(pthread_barrier_init(&other.line, NULL, 2), "pthread_barrier_init");
	must(pthread_create(&other.thread, NULL, serve, NULL), "pthread_create");
}

static void by_other(void (*work)(int), int count)
{
	other.work = work;
	other.count = count;
	pthread_barrier_wait(&other.line);
	if (work)
		pthread_barrier_wait(&other.line);
	else
		pthread_join(other.thread, NULL);
}

/* ---- stories ---- */

/* A loader, and one that only frees; then a thread that never had anything takes over. */
static void handed_on(void)
{
	begin_other();
	for (int i = 0; i < ROUNDS; i++) {
		take(MANY);
		by_other(give, MANY);
	}
	tell("rounds");
	by_other(NULL, 0);
	begin_other();
	by_other(take, MANY);
	tell("a third");
	give(MANY);
	by_other(NULL, 0);
	printf("trimmed %zu\n", gpuleak_pool_trim() / MIB);
	tell("trimmed");
}

/* Who lacked a block keeps the next ones, whoever had asked for them. Whoever then lacks these
 * visits that thread once. */
static void kept_by_who_lacks(void)
{
	CUdeviceptr lacked;

	begin_other();
	by_other(take, 1);
	lacked = at[0];
	take(7);
	by_other(give, 7);
	by_other(take, 7);
	tell("lacked");
	at[7] = lacked;
	by_other(give, 8);
	take(7);
	tell("visited");
	by_other(give, 7);
	by_other(NULL, 0);
}

static CUdeviceptr gradient[MANY];

static void backward(int count)
{
	for (int i = 0; i < count; i++) {
		must(cuMemAlloc_v2(&gradient[i], MIB), "cuMemAlloc_v2");
		must(cuMemsetD8Async(gradient[i], 0, MIB, NULL), "cuMemsetD8Async");
		must(cuMemFree_v2(at[i]), "cuMemFree_v2");
	}
}

/* A step of training: the other thread frees what this one allocated, and needs as much. */
static void train(void)
{
	begin_other();
	for (int i = 0; i < 500; i++) {
		take(MANY);
		by_other(backward, MANY);
		for (int k = 0; k < MANY; k++)
			must(cuMemFree_v2(gradient[k]), "cuMemFree_v2");
	}
	by_other(NULL, 0);
	tell("trained");
}

static _Atomic bool over;

static void *trim(void *unused)
{
	must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
	while (!over) {
		take(1);
		give(1);
	}
	return unused;
}

/* Nothing may be kept: while one thread's free gives device memory back, which is work on a stream
 * of the pool's, another one's must not give back pinned memory, which would wait for that. */
static void beside_a_trim(void)
{
	void (*mark)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "standin_mark");
	uint64_t (*overdue)(const char *) =
		(uint64_t(*)(const char *))dlsym(RTLD_DEFAULT, "standin_overdue");
	pthread_t thread;
	void *pinned;

	must(pthread_create(&thread, NULL, trim, NULL), "pthread_create");
	for (int i = 0; i < 200000; i++) {
		must(cuMemAllocHost_v2(&pinned, MIB), "cuMemAllocHost_v2");
		mark();
		must(cuMemFreeHost(pinned), "cuMemFreeHost");
	}
	over = true;
	pthread_join(thread, NULL);
	printf("waits for what was under way before: %" PRIu64 "\n", overdue("cuMemFreeHost"));
}

/* What was handed back to a thread ends with its context. */
static void context_ends(void)
{
	begin_other();
	take(10);
	by_other(give, 10);
	must(cuCtxDestroy_v2(context), "cuCtxDestroy_v2");
	by_other(NULL, 0);
	tell("ended");
	must(cuCtxCreate_v2(&context, 0, 0), "cuCtxCreate_v2");
	take(10);
	tell("the next");
	begin_other();
	by_other(give, 10);
	by_other(NULL, 0);
	take(10);
	tell("again");
	give(10);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*tell)(void);
	} stories[] = {
		{ "on", handed_on }, { "lack", kept_by_who_lacks }, { "train", train },
		{ "ends", context_ends }, { "trim", beside_a_trim },
	};

	must(cuInit(0), "cuInit");
	must(cuCtxCreate_v2(&context, 0, 0), "cuCtxCreate_v2");
	printf("possible %d\n", (syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0, 0, 0, 0) &
				 MEMBARRIER_CMD_PRIVATE_EXPEDITED) != 0);
	for (size_t i = 0; argc == 2 && i < sizeof(stories) / sizeof(stories[0]); i++)
		if (strcmp(stories[i].name, argv[1]) == 0)
			stories[i].tell();
	return 0;
}
