/* SPDX-License-Identifier: MIT
 *
 * Signals and forks that come while gpuleak walks a stack. Handlers must find the stack and the
 * signal mask of the thread, and a forked child must not wait for a lock of libunwind. libunwind
 * calls dl_iterate_phdr() in such walks. It is defined here, so that the signal or the fork comes
 * there each time.
 */
#include <alloca.h>
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cu.h"

static CUcontext context;
static __thread int armed; /* the signal that dl_iterate_phdr() raises; 0: none */
static __thread bool lingers; /* dl_iterate_phdr() waits until the process forks */
static _Atomic bool walks;

int dl_iterate_phdr(int (*callback)(struct dl_phdr_info *, size_t, void *), void *data)
{
	static int (*real)(int (*)(struct dl_phdr_info *, size_t, void *), void *);

	if (!real)
		real = (__typeof__(real))dlsym(RTLD_NEXT, "dl_iterate_phdr");
	if (armed)
		raise(armed);
	if (lingers) {
		lingers = false;
		walks = true;
		usleep(100000);
	}
	return real(callback, data);
}

/* Only the allocation is armed: whether the walk of the free calls dl_iterate_phdr(), too, depends
 * on libunwind's cache. */
static void allocate(size_t bytes)
{
	CUdeviceptr address;
	int signal;

	must(cuMemAlloc_v2(&address, bytes), "alloc"); /* @alloc */
	signal = armed;
	armed = 0;
	must(cuMemFree_v2(address), "free");
	armed = signal;
}

#if defined(__x86_64__)
/* An expression computes where the frame of this function ends: rsp + 16. So gpuleak leaves the
 * walk to libunwind. */
__asm__(".pushsection .text\n.type allocate_below,@function\nallocate_below:\n.cfi_startproc\n"
	"sub $8, %rsp\n.cfi_escape 0x0f, 2, 0x77, 16\ncall *%rsi\n"
	"add $8, %rsp\n.cfi_def_cfa rsp, 8\nret\n.cfi_endproc\n"
	".size allocate_below,.-allocate_below\n.popsection\n");
void allocate_below(size_t bytes, void (*function)(size_t)) __attribute__((visibility("hidden")));
#else
static void allocate_below(size_t bytes, void (*function)(size_t))
{
	function(bytes);
}
#endif

/* Calls allocate() at 2^DEPTH different stacks, by PATH. */
static void allocate_at(unsigned int path, unsigned int depth);
#define BRANCH(name)                                                              \
	static __attribute__((noinline)) void name(unsigned int path, unsigned int depth) \
	{                                                                         \
		allocate_at(path >> 1, depth - 1);                                \
	}
BRANCH(left)
BRANCH(right)
static void allocate_at(unsigned int path, unsigned int depth)
{
	if (depth == 0)
		allocate_below(64, allocate);
	else if (path & 1)
		left(path, depth);
	else
		right(path, depth);
}

/* ---- the stack that a handler finds ---- */

static __thread uintptr_t stack_low, stack_high;
static _Atomic unsigned int strays; /* handlers that ran elsewhere than on their thread's stack */
static _Atomic unsigned int handled;

/* Called by each thread, outside handlers. */
static void find_stack(void)
{
	pthread_attr_t attributes;
	void *low;
	size_t bytes;

	pthread_getattr_np(pthread_self(), &attributes);
	pthread_attr_getstack(&attributes, &low, &bytes);
	pthread_attr_destroy(&attributes);
	stack_low = (uintptr_t)low;
	stack_high = stack_low + bytes;
}

static bool is_on_stack(const void *at)
{
	return (uintptr_t)at >= stack_low && (uintptr_t)at < stack_high;
}

#define LARGE_FRAME ((size_t)1 << 20)

static void use_much_stack(int number)
{
	volatile char *frame;

	(void)number;
	handled++;
	frame = alloca(LARGE_FRAME);
	if (!is_on_stack((const char *)frame + LARGE_FRAME)) {
		strays++;
		return; /* there is no room */
	}
	for (size_t at = 0; at < LARGE_FRAME; at += 1024)
		frame[LARGE_FRAME - 1 - at] = 1;
}

static void handle(int number, void (*handler)(int), int flags)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = flags };

	sigaction(number, &action, NULL);
}

static void *allocate_with_signals(void *data)
{
	sigset_t before, after;

	find_stack();
	must(cuCtxSetCurrent(context), "current");
	memset(&before, 0, sizeof(before));
	after = before;
	pthread_sigmask(SIG_SETMASK, NULL, &before);
	armed = SIGUSR1;
	for (unsigned int path = 0; path < 16; path++)
		allocate_at(path, 4);
	armed = 0;
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	printf("%s: the mask is %s\n", (const char *)data,
	       memcmp(&before, &after, sizeof(before)) == 0 ? "as before" : "changed");
	return NULL;
}

static void large_handlers(void)
{
	char first[] = "main", second[] = "a thread";
	pthread_t thread;

	handle(SIGUSR1, use_much_stack, SA_RESTART);
	allocate_with_signals(first);
	pthread_create(&thread, NULL, allocate_with_signals, second);
	pthread_join(thread, NULL);
	printf("%u handlers ran elsewhere\n", strays);
}

/* ---- a collector ---- */

/* As garbage collectors do, stops a thread by a signal, and reads the thread's stack from the frame
 * of the handler to the base. */

#define STOPS 200
#define MARK 0x6c65616b65642121u

static _Atomic bool stopped, resumed, done;
static _Atomic(const uint64_t *) scan_from, scan_to;

/* Safe in a signal handler. */
static void nap(void)
{
	const struct timespec time = { .tv_nsec = 20000 };

	nanosleep(&time, NULL);
}

static void stop_here(int number)
{
	const uint64_t *frame = __builtin_frame_address(0);

	(void)number;
	if (!is_on_stack(frame))
		strays++;
	scan_from = frame;
	stopped = true;
	while (!resumed)
		nap();
	resumed = false;
}

static void *allocate_until_done(void *data)
{
	volatile uint64_t reference[1] = { MARK }; /* what the collector must find */

	(void)data;
	find_stack();
	must(cuCtxSetCurrent(context), "current");
	scan_to = (const uint64_t *)stack_high;
	for (unsigned int path = 0; !done; path++)
		allocate_at(path, 16);
	return (void *)(uintptr_t)(reference[0] != MARK);
}

/* The thread waits meanwhile. */
static bool finds_mark(const uint64_t *from, const uint64_t *to)
{
	for (; from < to; from++)
		if (*from == MARK)
			return true;
	return false;
}

static void collect(void)
{
	unsigned int lost = 0;
	pthread_t thread;

	handle(SIGUSR1, stop_here, SA_RESTART);
	pthread_create(&thread, NULL, allocate_until_done, NULL);
	while (!scan_to)
		nap();
	for (int i = 0; i < STOPS; i++) {
		nap();
		stopped = false;
		pthread_kill(thread, SIGUSR1);
		while (!stopped)
			nap();
		lost += strays ? 1 : !finds_mark(scan_from, scan_to);
		resumed = true;
	}
	done = true;
	pthread_join(thread, NULL);
	printf("%u references lost\n", lost);
}

/* ---- handlers that allocate ---- */

/* Each level has another function, so each walk finds a new frame, and calls dl_iterate_phdr(). */
#define LEVEL(number, next)                                                        \
	static void level_##number(void)                                           \
	{                                                                          \
		CUdeviceptr address;                                               \
		handle(SIGUSR1, next, SA_NODEFER);                                 \
		must(cuMemAlloc_v2(&address, 1u << number), "alloc"); /* @nested */ \
		must(cuMemFree_v2(address), "free");                               \
	}                                                                          \
	static void on_level_##number(int signal)                                  \
	{                                                                          \
		(void)signal;                                                      \
		level_##number();                                                  \
	}
LEVEL(5, SIG_IGN)
LEVEL(4, on_level_5)
LEVEL(3, on_level_4)
LEVEL(2, on_level_3)
LEVEL(1, on_level_2)

static void nested_handlers(void)
{
	allocate(64);
	handle(SIGUSR1, on_level_1, SA_NODEFER);
	armed = SIGUSR1;
	allocate_at(0, 3);
	armed = 0;
	puts("went on");
}

/* ---- a jump out of a handler that can't wait ---- */

static sigjmp_buf back;

static void jump(int number)
{
	(void)number;
	armed = 0;
	siglongjmp(back, 1);
}

static void jump_out(void)
{
	handle(SIGUSR1, use_much_stack, SA_RESTART);
	handle(SIGSEGV, jump, SA_NODEFER);
	find_stack();
	allocate(64);
	armed = SIGSEGV;
	if (sigsetjmp(back, 0) == 0)
		allocate_at(0, 3);
	armed = 0;
	allocate(64);
	raise(SIGUSR1);
	printf("%u signals handled, %u elsewhere\n", handled, strays);
}

/* ---- a fork in the middle of a walk ---- */

#define CHILD_MS 20000

static void *walk_slowly(void *data)
{
	must(cuCtxSetCurrent(context), "current");
	lingers = true;
	allocate_at(0, 3);
	walks = true; /* without gpuleak */
	return data;
}

static void free_in_child(void)
{
	/* fails, as each call does in the child of a process that used CUDA */
	cuMemFree_v2(0x1234);
}

static void fork_in_walk(void)
{
	pthread_t thread;
	int status = 0, ms = 0;
	pid_t child;

	allocate(64);
	pthread_create(&thread, NULL, walk_slowly, NULL);
	while (!walks)
		nap();
	child = fork();
	if (child == 0) {
		free_in_child();
		_exit(0);
	}
	for (; waitpid(child, &status, WNOHANG) == 0; ms++) {
		if (ms == CHILD_MS)
			kill(child, SIGKILL); /* it may have blocked all others */
		usleep(1000);
	}
	pthread_join(thread, NULL);
	puts(ms < CHILD_MS ? "the child ended" : "the child hung");
}

int main(int argc, char **argv)
{
	must(cuInit(0), "init");
	must(cuCtxCreate_v2(&context, 0, 0), "context");
	if (strcmp(argv[argc - 1], "large") == 0)
		large_handlers();
	else if (strcmp(argv[argc - 1], "collect") == 0)
		collect();
	else if (strcmp(argv[argc - 1], "nested") == 0)
		nested_handlers();
	else if (strcmp(argv[argc - 1], "fork") == 0)
		fork_in_walk();
	else
		jump_out();
	return 0;
}
