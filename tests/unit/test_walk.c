/* SPDX-License-Identifier: MIT
 *
 * Walks of the stack against libgcc's backtrace(): through frames of every sort, out of a signal
 * handler, and on gpuleak's own stack. And the cache of stacks: a stack that is seen often is found
 * there, and another one at the same place is not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

#include "interpose/base/own_stack.h"
#include "interpose/process/start.h"
#include "interpose/recorder/recorder.h"
#include "interpose/recorder/thread_state.h"
#include "interpose/recorder/thread_state_hot.h"
#include "interpose/stack/modules.h"
#include "interpose/stack/stack_cache.h"
#include "interpose/stack/stacks.h"
#include "interpose/stack/walk.h"
#include "own_ledger.h"

#define FRAMES 64
#define NOT_INLINED __attribute__((noinline))
#if defined(__aarch64__) && !defined(__clang__)
/* These sign their return addresses. A processor without signatures ignores that. */
#define SIGNED NOT_INLINED __attribute__((target("branch-protection=pac-ret+leaf")))
#define SIGNED_B NOT_INLINED __attribute__((target("branch-protection=pac-ret+leaf+b-key")))
#else
#define SIGNED NOT_INLINED
#define SIGNED_B NOT_INLINED
#endif

/* ---- walks ---- */

static int walk_slowly(void **pcs, int size)
{
	struct stack_walk walk;
	uint64_t pc;
	int count = 0;

	assert_true(walk_begin(&walk));
	do {
		assert_true(walk_pc(&walk, &pc));
		pcs[count++] = (void *)(uintptr_t)pc;
	} while (count < size && walk_step(&walk));
	return count;
}

/* Start-up code may leave a zero beyond the outermost frame. */
static int without_zeros(void **pcs, int count)
{
	while (count && !pcs[count - 1])
		count--;
	return count;
}

/* Returns how many frames are before that of PC. */
static int frames_before(const void *pc, void **pcs, int count)
{
	int ret = 0;

	while (ret < count && pcs[ret] != pc)
		ret++;
	return ret;
}

/* Compares the frames from FIRST on. A sanitizer has a frame of its own before it. */
static void same_tail(const void *first, void **wanted, int wanted_count, void **got, int got_count)
{
	int wanted_skip, got_skip;

	wanted_count = without_zeros(wanted, wanted_count);
	got_count = without_zeros(got, got_count);
	wanted_skip = frames_before(first, wanted, wanted_count);
	got_skip = frames_before(first, got, got_count);
	assert_in_range(wanted_skip, 1, 2);
	assert_in_range(got_skip, 0, 2);
	assert_true(wanted_count - wanted_skip > 2);
	assert_int_equal(got_count - got_skip, wanted_count - wanted_skip);
	assert_memory_equal(got + got_skip, wanted + wanted_skip,
			    (size_t)(wanted_count - wanted_skip) * sizeof(*got));
}

static volatile int checks;

static NOT_INLINED void check_here(void)
{
	void *wanted[FRAMES], *got[FRAMES];
	const void *caller = __builtin_extract_return_addr(__builtin_return_address(0));
	int count = backtrace(wanted, FRAMES);

	same_tail(caller, wanted, count, got, walk_fast(got, FRAMES));
	same_tail(caller, wanted, count, got, walk_slowly(got, FRAMES));
	checks++;
}

static volatile size_t odd = 77;

/* The compiler must store ROOM in the frame. */
static void keep(char *room)
{
	__asm__ volatile("" : : "r"(room) : "memory");
}

static NOT_INLINED void with_alloca(void (*next)(void))
{
	char *room = __builtin_alloca(odd);

	keep(room);
	next();
	keep(room);
}

static NOT_INLINED void with_large_frame(void)
{
	char room[100000];

	keep(room);
	with_alloca(check_here);
	keep(room);
}

static SIGNED void with_signature(void)
{
	with_large_frame();
	checks = checks + 0;
}

static SIGNED_B void with_other_signature(void)
{
	with_alloca(with_signature);
	checks = checks + 0;
}

static NOT_INLINED void with_aligned_frame(void)
{
	_Alignas(256) char room[256];

	keep(room);
	with_other_signature();
	keep(room);
}

static void test_frames(void **state)
{
	(void)state;
	checks = 0;
	with_aligned_frame();
	assert_int_equal(checks, 1);
}

static void on_signal(int number)
{
	(void)number;
	with_aligned_frame();
}

static void raise_once(void)
{
	raise(SIGUSR1);
	checks = checks + 0;
}

static void test_signal(void **state)
{
	static char other[1 << 18];
	const stack_t stack = { .ss_sp = other, .ss_size = sizeof(other) };
	const int flags[] = { 0, SA_ONSTACK };

	(void)state;
	assert_int_equal(sigaltstack(&stack, NULL), 0);
	for (int i = 0; i < 2; i++) {
		const struct sigaction action = { .sa_handler = on_signal, .sa_flags = flags[i] };

		checks = 0;
		assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
		with_alloca(raise_once);
		assert_int_equal(checks, 1);
	}
}

static void check_aside(void *data)
{
	(void)data;
	with_aligned_frame();
}

static NOT_INLINED void call_aside(void)
{
	aside(check_aside, NULL);
	checks = checks + 0;
}

static void test_own_stack(void **state)
{
	(void)state;
	checks = 0;
	call_aside();
	assert_int_equal(checks, 1);
}

static void *in_thread(void *data)
{
	with_aligned_frame();
	return data;
}

static void test_thread(void **state)
{
	pthread_t thread;

	(void)state;
	checks = 0;
	assert_int_equal(pthread_create(&thread, NULL, in_thread, NULL), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(checks, 1);
}

/* ---- the cache of stacks ---- */

static uint32_t cached; /* ref that the cache has for the last stack; 0: none */

/* As a wrapper does: the caller is the function that calls this. */
static NOT_INLINED uint32_t wrapper(void)
{
	const struct caller *caller = CALLER;
	struct recorder *recorder = recorder_enter();
	struct stack_cache_key key = { 0 };
	uint32_t ref;

	assert_non_null(recorder);
	ref = stack_here(recorder, caller);
	cached = 0;
	if (caller) {
		key.pc = caller->pc;
		key.top = caller_top(caller);
		cached = stack_cache_find(thread_self.state->stack_cache, &key,
					  caller->frame_pointer, recorder->modules->epoch);
	}
	recorder_leave();
	return ref;
}

/* qsort() of glibc calls this: its frames are those that the stack has, because all code of a test
 * counts as gpuleak's. */
static int from_libc(const void *a, const void *b)
{
	(void)b;
	*(uint32_t *)(uintptr_t)a = wrapper();
	return 0;
}

static NOT_INLINED uint32_t stack_of_qsort(void)
{
	uint32_t refs[2] = { 0, 0 };

	qsort(refs, 2, sizeof(refs[0]), from_libc);
	return refs[0] ? refs[0] : refs[1];
}

static NOT_INLINED uint32_t stack_of_bsearch(void)
{
	uint32_t refs[2] = { 0, 0 };

	bsearch(&refs[0], &refs[1], 1, sizeof(refs[0]), from_libc);
	return refs[0];
}

#define SAME 16

static void test_cache(void **state)
{
	uint32_t (*const stacks[])(void) = { stack_of_qsort, stack_of_bsearch };
	uint32_t refs[SAME + 2], found[SAME + 2];

	(void)state;
#if defined(__aarch64__) && defined(__clang__)
	skip(); /* see CALLER */
#endif
	for (volatile int i = 0; i < SAME + 2; i++) { /* volatile: one call for all */
		refs[i] = stacks[i == SAME]();
		found[i] = cached;
	}
	assert_int_not_equal(refs[0], 0);
	for (int i = 1; i < SAME; i++)
		assert_int_equal(refs[i], refs[0]);
	assert_int_equal(found[SAME - 1], refs[0]);
	assert_int_not_equal(refs[SAME], 0);
	assert_int_not_equal(refs[SAME], refs[0]);
	assert_int_not_equal(found[SAME], refs[0]);
	assert_int_equal(refs[SAME + 1], refs[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_frames),
		cmocka_unit_test(test_signal),
		cmocka_unit_test(test_own_stack),
		cmocka_unit_test(test_thread),
		cmocka_unit_test(test_cache),
	};

	setenv("GPULEAK_STACK_DEPTH", "64", 1);
	process_start();
	assert_int_equal(walk_load(), 0);
	return cmocka_run_group_tests(tests, NULL, remove_ledger);
}
