/* SPDX-License-Identifier: MIT
 *
 * Allocates through many call chains that are hard to tell apart from the inside: same
 * innermost frame, same stack pointer, other callers. The size of a block says by which
 * chain it was made; at the end the program prints, for each size, how many blocks there
 * are and the functions that their stack must name. A tracer that remembers stacks must
 * attribute every block to its own chain. Built -O0, -O2, and with frame pointers.
 *
 * chains FRAME|all ROUNDS    blocks that are lost
 * chains frees               each block is freed twice, by other chains: prints the three
 */
#include <alloca.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "cu.h"

#ifdef __clang__
#define NOINLINE __attribute__((noinline))
#else
#define NOINLINE __attribute__((noinline, noclone))
#endif
#define END_OF_FRAME __asm__ volatile("" ::: "memory")
#define USE(array) __asm__ volatile("" ::"r"(array) : "memory")

enum { CHAINS = 32, BASE = 1024 };

struct plan {
	int frame;    /* which sort of frame stands between, 0..FRAMES-1 */
	int chain;    /* which chain_N */
	int depth;    /* recurse() this many times */
	int top;      /* which outermost function, 0..TOPS-1 */
	CUdeviceptr address; /* allocated here; freed here if it is not 0 */
};
enum { FRAMES = 8, DEPTHS = 4, TOPS = 6 };

static unsigned int counts[TOPS][FRAMES][CHAINS][DEPTHS];
static pthread_mutex_t counts_lock = PTHREAD_MUTEX_INITIALIZER;
static __thread struct plan now;
static __thread jmp_buf *away;

static size_t size_of(const struct plan *p)
{
	return BASE + (((size_t)p->top * FRAMES + (size_t)p->frame) * CHAINS + (size_t)p->chain) *
			      DEPTHS + (size_t)p->depth;
}

static NOINLINE void innermost(void)
{
	if (now.address)
		cuMemFree_v2(now.address);
	else
		must(cuMemAlloc_v2(&now.address, size_of(&now)), "alloc");
	END_OF_FRAME;
}

/* How much stack one level of recurse() takes: measured, it depends on the compiler. */
static size_t recurse_frame;
static uintptr_t deepest;
static NOINLINE void measure(int depth)
{
	if (depth > 0)
		measure(depth - 1);
	else
		deepest = (uintptr_t)__builtin_frame_address(0);
	END_OF_FRAME;
}

static NOINLINE void measure_frame(void)
{
	uintptr_t zero;

	measure(0);
	zero = deepest;
	measure(1);
	recurse_frame = zero - deepest;
}

/* ---- what may stand between a chain and the innermost frame ---- */

/* At every depth the stack pointer of the innermost frame is meant to be the same: what
 * the missing levels would have taken is taken by alloca at the start. */
static NOINLINE void recurse(int depth)
{
	if (depth > 0)
		recurse(depth - 1);
	else
		innermost();
	END_OF_FRAME;
}

static NOINLINE void frame_plain(void)
{
	recurse(now.depth);
	END_OF_FRAME;
}

static NOINLINE void frame_alloca(void)
{
	char *pad = alloca(16 + 16 * (size_t)(now.chain % 4));

	USE(pad);
	recurse(now.depth);
	USE(pad);
}

/* Padded so that each depth ends at the same place. */
static NOINLINE void frame_levelled(void)
{
	char *pad = alloca(16 + (DEPTHS - (size_t)now.depth) * recurse_frame);

	USE(pad);
	recurse(now.depth);
	USE(pad);
}

static NOINLINE void frame_vla(void)
{
	int pad[16 + now.chain % 3 * 4];

	USE(pad);
	recurse(now.depth);
	USE(pad);
}

/* A frame that is aligned anew and has a variable size too: gcc keeps the way back to its
 * caller in a word of its own, and the words between are left as they were. */
static NOINLINE void frame_aligned(void)
{
	_Alignas(256) char aligned[256];
	char *pad = alloca(16 + (size_t)now.depth);

	USE(aligned);
	USE(pad);
	recurse(now.depth);
	USE(aligned);
}

#if defined(__x86_64__)
/* The same by hand, with the way back in a register that most unwinders need not save. */
void frame_by_rbx(void (*next)(int), int depth);
__asm__(".text\n"
	".type frame_by_rbx, @function\n"
	"frame_by_rbx:\n"
	".cfi_startproc\n"
	"	push %rbx\n"
	".cfi_def_cfa_offset 16\n"
	".cfi_offset %rbx, -16\n"
	"	mov %rsp, %rbx\n"
	".cfi_def_cfa_register %rbx\n"
	"	and $-256, %rsp\n"
	"	mov %rdi, %rax\n"
	"	mov %esi, %edi\n"
	"	call *%rax\n"
	"	mov %rbx, %rsp\n"
	".cfi_def_cfa_register %rsp\n"
	"	pop %rbx\n"
	".cfi_def_cfa_offset 8\n"
	"	ret\n"
	".cfi_endproc\n"
	".size frame_by_rbx, .-frame_by_rbx\n");
#else
static NOINLINE void frame_by_rbx(void (*next)(int), int depth)
{
	next(depth);
	END_OF_FRAME;
}
#endif

static NOINLINE void frame_rbx(void)
{
	frame_by_rbx(recurse, now.depth);
	END_OF_FRAME;
}

static NOINLINE void frame_longjmp(void)
{
	recurse(now.depth);
	longjmp(*away, 1);
}

static void on_usr1(int number)
{
	(void)number;
	recurse(now.depth);
	END_OF_FRAME;
}

static NOINLINE void frame_signal(void)
{
	raise(SIGUSR1);
	END_OF_FRAME;
}

static void (*const frames[FRAMES])(void) = { frame_plain,   frame_alloca, frame_levelled,
					      frame_vla,     frame_aligned, frame_rbx,
					      frame_longjmp, frame_signal };
static const char *const frame_names[FRAMES] = {
	"frame_plain",   "frame_alloca", "frame_levelled", "frame_vla",
	"frame_aligned", "frame_rbx",    "frame_longjmp",  "on_usr1<frame_signal",
};

/* ---- the chains: alike but for their names, and for 8 to 56 bytes of frame ---- */

#define CHAIN(n, pad)                                       \
	static NOINLINE void chain_##n(void)                \
	{                                                   \
		char room[1 + pad];                         \
		room[pad] = n;                              \
		USE(room);                                  \
		frames[now.frame]();                        \
		USE(room);                                  \
	}
#define FOUR(a, b, c, d) CHAIN(a, 0) CHAIN(b, 16) CHAIN(c, 40) CHAIN(d, 72)
FOUR(0, 1, 2, 3)
FOUR(4, 5, 6, 7)
FOUR(8, 9, 10, 11)
FOUR(12, 13, 14, 15)
FOUR(16, 17, 18, 19)
FOUR(20, 21, 22, 23)
FOUR(24, 25, 26, 27)
FOUR(28, 29, 30, 31)
static void (*const chains[CHAINS])(void) = {
	chain_0,  chain_1,  chain_2,  chain_3,  chain_4,  chain_5,  chain_6,  chain_7,
	chain_8,  chain_9,  chain_10, chain_11, chain_12, chain_13, chain_14, chain_15,
	chain_16, chain_17, chain_18, chain_19, chain_20, chain_21, chain_22, chain_23,
	chain_24, chain_25, chain_26, chain_27, chain_28, chain_29, chain_30, chain_31,
};

/* ---- switching between them ---- */

static __thread uint64_t seed;
static int only_frame = -1;

static unsigned int pick(unsigned int below)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (unsigned int)(seed >> 33) % below;
}

static int pick_frame(void)
{
	return only_frame < 0 ? (int)pick(FRAMES) : only_frame;
}

static NOINLINE void dispatch(void)
{
	jmp_buf here;

	away = &here;
	if (setjmp(here) == 0)
		chains[now.chain]();
	END_OF_FRAME;
}

/* One allocation. In some rounds the same chain comes again, in most another one: what was
 * learnt on the second meeting must not be found again on the third by somebody else. */
static NOINLINE void one(int top, int frame)
{
	now.top = top;
	now.frame = frame;
	now.address = 0;
	if (pick(4)) {
		now.chain = (int)pick(CHAINS);
		now.depth = (int)pick(DEPTHS);
	}
	pthread_mutex_lock(&counts_lock);
	counts[top][frame][now.chain][now.depth]++;
	pthread_mutex_unlock(&counts_lock);
	dispatch();
	END_OF_FRAME;
}

static NOINLINE void top_main(int rounds)
{
	for (int i = 0; i < rounds; i++)
		one(0, pick_frame());
}

/* Frame after frame of one sort: neighbours differ in the chain alone. */
static NOINLINE void top_sorted(int rounds)
{
	for (int frame = 0; frame < FRAMES; frame++)
		for (int i = 0; i < rounds / FRAMES; i++)
			one(1, only_frame < 0 ? frame : only_frame);
}

/* Two chains in turn, twice each: the shortest way to a wrong memory. */
static NOINLINE void top_turns(int rounds)
{
	for (int i = 0; i < rounds; i++) {
		int frame = only_frame < 0 ? i * FRAMES / rounds : only_frame;

		now = (struct plan){ frame, (i >> 2 & 7) * 4 + (i >> 1 & 1) * 2, 0, 2, 0 };
		counts[2][frame][now.chain][0]++;
		dispatch();
	}
}

enum { COROUTINES = 6, STACK = 256 * 1024 };
static ucontext_t coroutines[COROUTINES], resumer;
static int coroutine_rounds;

static NOINLINE void top_coroutine(void)
{
	for (;;) {
		one(3, pick_frame());
		swapcontext(&coroutines[coroutine_rounds % COROUTINES], &resumer);
	}
}

static NOINLINE void make_coroutine(int number, char *stack)
{
	getcontext(&coroutines[number]);
	coroutines[number].uc_stack.ss_sp = stack;
	coroutines[number].uc_stack.ss_size = STACK;
	coroutines[number].uc_link = NULL;
	makecontext(&coroutines[number], top_coroutine, 0);
}

/* Stacks that are unmapped and mapped again in between, at the same place. */
static void run_coroutines(int rounds)
{
	static char *stacks;

	for (coroutine_rounds = 0; coroutine_rounds < rounds; coroutine_rounds++) {
		if (coroutine_rounds % (COROUTINES * 40) == 0) {
			if (stacks)
				munmap(stacks, (size_t)COROUTINES * STACK);
			stacks = mmap(stacks, (size_t)COROUTINES * STACK, PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			if (stacks == MAP_FAILED)
				exit(4);
			for (int i = 0; i < COROUTINES; i++)
				make_coroutine(i, stacks + (size_t)i * STACK);
		}
		swapcontext(&resumer, &coroutines[coroutine_rounds % COROUTINES]);
	}
}

static CUcontext context;

static NOINLINE void *top_thread(void *number)
{
	seed = (uint64_t)(uintptr_t)number;
	must(cuCtxSetCurrent(context), "set");
	for (int i = 0; i < 20; i++)
		one(4, pick_frame());
	return NULL;
}

/* One after the other: each gets the stack of the one before. */
static void run_threads(int threads)
{
	for (int i = 0; i < threads; i++) {
		pthread_t thread;

		must(pthread_create(&thread, NULL, top_thread, (void *)(uintptr_t)(i + 99)),
		     "thread");
		pthread_join(thread, NULL);
	}
}

static NOINLINE void *top_together(void *number)
{
	seed = (uint64_t)(uintptr_t)number;
	must(cuCtxSetCurrent(context), "set");
	for (int i = 0; i < 1000; i++)
		one(5, pick_frame());
	return NULL;
}

static void run_together(void)
{
	pthread_t threads[4];

	for (size_t i = 0; i < 4; i++)
		must(pthread_create(&threads[i], NULL, top_together, (void *)(i + 7)), "thread");
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
}

static void print_chain(const struct plan *p)
{
	static const char *const tops[TOPS + 1] = {
		"top_main",   "top_sorted",   "top_turns", "top_coroutine",
		"top_thread", "top_together", "top_frees",
	};

	printf(" innermost");
	for (int i = 0; i <= p->depth; i++)
		printf("<recurse");
	printf("<%s<chain_%d<%s", frame_names[p->frame], p->chain, tops[p->top]);
}

static void tell(void)
{
	for (int t = 0; t < TOPS; t++)
		for (int f = 0; f < FRAMES; f++)
			for (int c = 0; c < CHAINS; c++)
				for (int d = 0; d < DEPTHS; d++) {
					struct plan p = { f, c, d, t, 0 };

					if (!counts[t][f][c][d])
						continue;
					printf("%zu %u", size_of(&p), counts[t][f][c][d]);
					print_chain(&p);
					printf("\n");
				}
}

/* All are allocated, then all freed, then all freed once more. */
enum { FREES = 1500 };
static struct plan frees[3][FREES];

static NOINLINE void top_frees(int step)
{
	for (int i = 0; i < FREES; i++) {
		now = (struct plan){ i % FRAMES, (int)pick(CHAINS), (int)pick(DEPTHS), TOPS, 0 };
		now.address = step ? frees[0][i].address : 0;
		dispatch();
		frees[step][i] = now;
	}
}

static void tell_frees(void)
{
	for (int i = 0; i < FREES; i++) {
		printf("0x%llx", frees[0][i].address);
		for (int step = 0; step < 3; step++)
			print_chain(&frees[step][i]);
		printf("\n");
	}
}

static void lose(int rounds)
{
	top_main(rounds);
	top_sorted(rounds);
	top_turns(rounds);
	run_coroutines(rounds / 2);
	run_threads(rounds / 100);
	run_together();
	tell();
}

int main(int argc, char **argv)
{
	static const struct driver driver = LINKED_DRIVER;
	const char *what = argc > 1 ? argv[1] : "all";
	struct sigaction action;

	memset(&action, 0, sizeof(action));
	action.sa_handler = on_usr1;
	action.sa_flags = SA_NODEFER; /* a longjmp out of it leaves no mask behind */
	sigaction(SIGUSR1, &action, NULL);
	start(&driver);
	must(cuDevicePrimaryCtxRetain(&context, 0), "retain");
	measure_frame();
	seed = 1;
	for (int i = 0; i < FRAMES; i++)
		if (strcmp(frame_names[i] + (i == FRAMES - 1 ? 8 : 0), what) == 0)
			only_frame = i;
	if (strcmp(what, "frees") == 0) {
		for (int step = 0; step < 3; step++)
			top_frees(step);
		tell_frees();
	} else {
		lose(argc > 2 ? atoi(argv[2]) : 8000);
	}
	return 0;
}
