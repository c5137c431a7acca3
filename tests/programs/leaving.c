/* SPDX-License-Identifier: MIT
 *
 * How a process or a thread leaves GPU code: to another directory or another program, from a
 * small stack, or cancelled.
 */
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "cu.h"

static void leak(size_t bytes)
{
	CUdeviceptr address;

	must(cuMemAlloc_v2(&address, bytes), "alloc"); /* @leak */
}

/* Becomes the program ARGV long enough after the start for files to be dated later than it. */
static void become(char **argv)
{
	const struct timespec later = { .tv_nsec = 100000000 };

	leak(1234); /* @before_exec */
	nanosleep(&later, NULL);
	execv(argv[0], argv);
	perror("exec");
}

/* ---- small stacks ---- */

#define FRAME_ALLOWED 5120u

static const char *small_end;

static void end_small(void)
{
	if (strcmp(small_end, "_exit") == 0)
		_exit(6);
	if (strcmp(small_end, "exit") == 0)
		exit(6);
	if (strcmp(small_end, "quick_exit") == 0)
		quick_exit(6);
	if (strcmp(small_end, "exec") == 0)
		execl("/bin/true", "true", (char *)NULL);
	if (strcmp(small_end, "execlp") == 0)
		execlp("true", "true", (char *)NULL);
	leak(2000);
}

static void on_signal(int number)
{
	(void)number;
	end_small();
}

/* A signal stack of 8 KiB, or what the processor's registers need and 5 KiB. */
static int on_signal_stack(void)
{
	size_t bytes = getauxval(AT_MINSIGSTKSZ) + FRAME_ALLOWED, page = 4096;
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_ONSTACK };
	stack_t stack = { 0 };
	char *memory;

	bytes = (bytes < 8192 ? 8192 : bytes + page - 1) & ~(page - 1);
	memory = mmap(NULL, bytes + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		      0);
	mprotect(memory, page, PROT_NONE);
	stack.ss_sp = memory + page;
	stack.ss_size = bytes;
	if (sigaltstack(&stack, NULL) < 0)
		return 9;
	sigaction(SIGTERM, &action, NULL);
	raise(SIGTERM);
	return 7;
}

#define SMALL_STACK 16384u

static size_t unused_stack;

static void *in_small_thread(void *context)
{
	volatile char *unused = __builtin_alloca(unused_stack + 1);

	*unused = 0;
	must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
	end_small();
	return NULL;
}

/* Where the C library makes no thread so small (aarch64: 128 KiB), the thread has used the rest of
 * its stack before its calls. */
static int set_small_stack(pthread_attr_t *attributes)
{
	long least = sysconf(_SC_THREAD_STACK_MIN);

	if (pthread_attr_setstacksize(attributes, SMALL_STACK) == 0)
		return 0;
	if (least <= (long)SMALL_STACK || pthread_attr_setstacksize(attributes, (size_t)least) != 0)
		return -1;
	unused_stack = (size_t)least - SMALL_STACK;
	return 0;
}

/* With FIRST, the thread's calls are the process's first. */
static int on_small_thread(const char *first)
{
	CUcontext context = NULL;
	pthread_attr_t attributes;
	pthread_t thread;

	if (strcmp(first, "later") == 0) {
		must(cuInit(0), "cuInit");
		must(cuCtxCreate_v2(&context, 0, 0), "cuCtxCreate_v2");
	}
	pthread_attr_init(&attributes);
	if (set_small_stack(&attributes) != 0)
		return 9;
	pthread_create(&thread, &attributes, in_small_thread, context);
	pthread_join(thread, NULL);
	return 7;
}

/* ---- cancelled ---- */

static int passed;

static void *be_cancelled(void *context)
{
	CUdeviceptr address;

	pthread_cancel(pthread_self());
	must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
	leak(10); /* @cancelled */
	must(cuMemAlloc_v2(&address, 20), "alloc");
	must(cuMemFree_v2(address), "free");
	must(cuMemFree_v2(12345) == 1 ? 0 : 999, "free"); /* @nothing */
	for (int i = 0; i < 2000; i++) /* makes the ledger grow */
		must(cuMemAlloc_v2(&address, 1), "alloc"); /* @cancelled_often */
	passed++;
	pthread_testcancel();
	passed = -1;
	return NULL;
}

static int cancelled(void)
{
	CUcontext context;

	begin();
	must(cuCtxCreate_v2(&context, 0, 0), "cuCtxCreate_v2");
	for (int i = 0; i < 4; i++) {
		pthread_t thread;

		pthread_create(&thread, NULL, be_cancelled, context);
		pthread_join(thread, NULL);
	}
	printf("%d passed\n", passed);
	return 0;
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";

	if (strcmp(how, "directory") == 0) {
		begin();
		leak(100);
		return chdir(argv[2]);
	}
	if (strcmp(how, "exec") == 0) {
		begin();
		become(argv + 2); /* @exec */
	}
	if (strcmp(how, "signal-stack") == 0) {
		begin();
		leak(1000);
		small_end = argv[2];
		return on_signal_stack();
	}
	if (strcmp(how, "thread-stack") == 0) {
		small_end = argv[2];
		return on_small_thread(argv[3]);
	}
	if (strcmp(how, "cancelled") == 0)
		return cancelled();
	return 2;
}
