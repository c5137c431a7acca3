/* SPDX-License-Identifier: MIT
 *
 * Owns the stacks for gpuleak's slow work: a few free stacks for all threads. If work never
 * returns, its stack is not used again. Holds back the application's signals while a thread is on
 * such a stack. Must not hold them back while other code than gpuleak's and the loader's runs.
 */
#include "interpose/base/own_stack.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ledger/writer.h"

#define STACK_BYTES ((size_t)256 << 10)
#define GUARD_BYTES ((size_t)64 << 10) /* a page may be that large */
#define STACKS 16u /* a power of two */
/* if less address space is left to the process, no stack is kept */
#define KEEP_MIN ((uint64_t)16 << 20)
/* aside_switch() stores less than this below the stack pointer of its caller */
#define BELOW_SWITCH 256u

/* Calls WORK(DATA) on the stack that ends at TOP. Defined in own_stack_ARCH.S. */
void aside_switch(void (*work)(void *data), void *data, void *top)
	__attribute__((visibility("hidden")));

static struct {
	_Alignas(64) _Atomic(char *) memory;
} spare[STACKS];

/* where the thread's aside() in progress runs */
static __thread struct aside_place current;

bool aside_is_on(uintptr_t at)
{
	return current.low && at - current.low < STACK_BYTES;
}

/* ---- signals ---- */

#define SIGNAL_BIT(number) (1ull << ((number) - 1))
/* A thread raises these by its own code, so they can't wait. */
#define SYNCHRONOUS                                                                         \
	(SIGNAL_BIT(SIGSEGV) | SIGNAL_BIT(SIGBUS) | SIGNAL_BIT(SIGFPE) | SIGNAL_BIT(SIGILL) | \
	 SIGNAL_BIT(SIGTRAP) | SIGNAL_BIT(SIGABRT) | SIGNAL_BIT(SIGSYS))
/* libc's own two: setuid() of another thread waits for the second one. Their handlers need little
 * stack. */
#define OF_LIBC (SIGNAL_BIT(32) | SIGNAL_BIT(33))
/* A mask never has these. */
#define NEVER_HELD (SIGNAL_BIT(SIGKILL) | SIGNAL_BIT(SIGSTOP))
#define HELD (~(SYNCHRONOUS | OF_LIBC | NEVER_HELD))

/* Returns the mask before. Calls the kernel, because the application may have its own function
 * sigprocmask(). */
static uint64_t change_mask(int how, uint64_t mask)
{
	int saved = errno;
	uint64_t before = 0;

	if (syscall(SYS_rt_sigprocmask, how, &mask, &before, sizeof(mask)) < 0)
		errno = saved;
	return before;
}

void aside_release_left(void)
{
	uint64_t left = current.low ? HELD & ~current.mask : 0;

	current = (struct aside_place){ 0 };
	if (left && (change_mask(SIG_BLOCK, 0) & HELD) == HELD)
		change_mask(SIG_UNBLOCK, left);
}

/* ---- stacks ---- */

/* Threads start their search at different places, so that they rarely want the same stack. */
static unsigned int first_place(void)
{
	return (unsigned int)(((uintptr_t)&current >> 12) * 0x9e3779b1u >> 16);
}

/* *RET_KEEP becomes false if the stack must be unmapped after its use. */
static char *stack_allocate(bool *ret_keep)
{
	unsigned int first = first_place();
	char *memory;

	*ret_keep = true;
	for (unsigned int i = 0; i < STACKS; i++) {
		_Atomic(char *) *place = &spare[(first + i) % STACKS].memory;

		if (atomic_load_explicit(place, memory_order_relaxed) &&
		    (memory = atomic_exchange_explicit(place, NULL, memory_order_acquire)))
			return memory;
	}
	memory = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
	if (memory == MAP_FAILED)
		return NULL;
	mprotect(memory, GUARD_BYTES, PROT_NONE);
	/* A limit on address space may leave the application only as much as this. */
	*ret_keep = ledger_address_space_left() >= KEEP_MIN;
	return memory;
}

static void stack_return(char *memory, bool keep)
{
	unsigned int first = first_place();

	for (unsigned int i = 0; keep && i < STACKS; i++) {
		char *none = NULL;

		if (atomic_compare_exchange_strong_explicit(&spare[(first + i) % STACKS].memory,
							    &none, memory, memory_order_release,
							    memory_order_relaxed))
			return;
	}
	munmap(memory, STACK_BYTES);
}

/* ---- the switch ---- */

/* Returns the place of the aside() that a handler's call interrupted. Stack addresses that are not
 * above the present one belong to an aside() that was left by a jump. */
static struct aside_place interrupted_place(uintptr_t now)
{
	return now < current.at ? current : (struct aside_place){ 0 };
}

unsigned int aside_depth(void)
{
	return interrupted_place((uintptr_t)__builtin_frame_address(0)).depth;
}

static uintptr_t stack_pointer(void)
{
	uintptr_t ret;

#if defined(__x86_64__)
	__asm__ volatile("movq %%rsp, %0" : "=r"(ret));
#else
	__asm__ volatile("mov %0, sp" : "=r"(ret));
#endif
	return ret;
}

void aside_begin(struct aside *ret, void (*work)(void *data), void *data)
{
	uintptr_t now = (uintptr_t)__builtin_frame_address(0);
	char *memory;
	bool keep;
	int state;

	ret->nested = aside_is_on(now);
	if (ret->nested) {
		work(data);
		return;
	}
	ret->before = interrupted_place(now);
	ret->mask = change_mask(SIG_BLOCK, HELD);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	memory = stack_allocate(&keep);
	current = (struct aside_place){
		.at = now, .outside = stack_pointer() - BELOW_SWITCH, .mask = ret->mask,
		.depth = ret->before.depth + 1, .low = (uintptr_t)memory,
	};
	if (memory) {
		aside_switch(work, data, memory + STACK_BYTES);
		stack_return(memory, keep);
	} else {
		work(data);
	}
	current.low = 0;
	pthread_setcancelstate(state, NULL);
}

void aside_end(const struct aside *aside)
{
	if (aside->nested)
		return;
	change_mask(SIG_SETMASK, aside->mask); /* handlers of signals that waited run now */
	current = aside->before;
}

void aside(void (*work)(void *data), void *data)
{
	struct aside aside;

	aside_begin(&aside, work, data);
	aside_end(&aside);
}

struct outside {
	void (*work)(void *data);
	void *data;
	uint64_t mask;
};

static void work_unheld(void *data)
{
	const struct outside *outside = data;

	change_mask(SIG_SETMASK, outside->mask);
	outside->work(outside->data);
	change_mask(SIG_BLOCK, HELD);
}

void aside_outside(void (*work)(void *data), void *data)
{
	const struct aside_place here = current;
	struct outside outside = { work, data, here.mask };

	if (!aside_is_on((uintptr_t)__builtin_frame_address(0))) {
		work(data);
		return;
	}
	current.low = 0;
	aside_switch(work_unheld, &outside, (void *)(here.outside & ~(uintptr_t)15));
	current = here;
}
