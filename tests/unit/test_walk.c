/* SPDX-License-Identifier: MIT
 *
 * Walks of the stack against libgcc's backtrace(): through frames of every sort, out of a signal
 * handler, on gpuleak's own stack, and by the rules that are known. And the cache of stacks: a
 * stack that is seen often is found there, and another one at the same place is not.
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
#include "interpose/stack/capture.h"
#include "interpose/stack/frames.h"
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
	assert_uint_in_range(wanted_skip, 1, 2);
	assert_uint_in_range(got_skip, 0, 2);
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

#if defined(__x86_64__)
/* ---- sorts of frames ---- */

/* Functions that call the function in their first argument. Each has another sort of frame. */
#define FUNCTION(name, before, after)                                                 \
	__asm__(".pushsection .text\n.type " #name ",@function\n" #name ":\n"          \
		".cfi_startproc\n" before "call *%rdi\n" after "ret\n.cfi_endproc\n"     \
		".size " #name ",.-" #name "\n.popsection\n");                          \
	void name(void (*function)(void)) __attribute__((visibility("hidden")))
#define PUSHED(reg) "push %" reg "\n.cfi_adjust_cfa_offset 8\n.cfi_offset " reg ", -16\n"
#define POPPED(reg) "pop %" reg "\n.cfi_def_cfa rsp, 8\n"

FUNCTION(by_stack, "sub $8, %rsp\n.cfi_adjust_cfa_offset 8\n", "add $8, %rsp\n");
FUNCTION(by_pointer, PUSHED("rbp") "mov %rsp, %rbp\n.cfi_def_cfa_register rbp\n", POPPED("rbp"));
FUNCTION(by_other_register, PUSHED("rbx") "mov %rsp, %rbx\n.cfi_def_cfa_register rbx\n",
	 POPPED("rbx"));
/* def_cfa_expression: rsp + 16 */
FUNCTION(by_expression, "sub $8, %rsp\n.cfi_escape 0x0f, 2, 0x77, 16\n",
	 "add $8, %rsp\n.cfi_def_cfa rsp, 8\n");
/* expression: the frame pointer is saved at the frame's end (on the expression's stack) - 16 */
FUNCTION(saved_by_expression, PUSHED("rbp") ".cfi_escape 0x10, 6, 2, 0x40, 0x1c\n",
	 POPPED("rbp"));
FUNCTION(of_signal, ".cfi_signal_frame\nsub $8, %rsp\n.cfi_adjust_cfa_offset 8\n",
	 "add $8, %rsp\n");

static struct frame_rule seen_rule;
static unsigned int seen_frames;
static struct frames_walks seen;
static uint64_t seen_words[2]; /* where the return address and the frame pointer were saved */

static NOT_INLINED void see_rule(void)
{
	const struct frame_place *place;
	const uint64_t *pcs;
	uint64_t hash;

	seen_rule = frame_rule_at(CALLER->pc, false);
	seen_frames = frames_walk(CALLER, &seen, 2, true, &pcs, &hash);
	place = &seen.place[seen.first];
	if (!seen_frames)
		return;
	seen_words[0] = *place->link;
	seen_words[1] = place->saved ? *place->saved : 0;
}

/* Returns true if the frame of FUNCTION has a rule, and a walk leaves the frame by it. */
static bool has_rule(void (*function)(void (*)(void)))
{
	function(see_rule);
	assert_int_equal(seen_frames, seen_rule.how == FRAME_BY_TABLE ? 2 : 0);
	return seen_frames != 0;
}

static void test_sorts(void **state)
{
	(void)state;
	assert_true(has_rule(by_stack));
	assert_false(seen_rule.by_pointer);
	assert_int_equal(seen_words[0], seen.pc[seen.first + 1]);
	assert_int_equal(seen_words[1], 0);
	assert_false(has_rule(by_other_register));
	assert_false(has_rule(by_expression));
	assert_false(has_rule(of_signal));
	assert_true(has_rule(by_pointer));
	assert_true(seen_rule.by_pointer);
	assert_int_equal(seen_words[0], seen.pc[seen.first + 1]);
	assert_int_equal(seen_words[1], seen.place[seen.first + 1].pointer);
	/* The saved frame pointer lies below the return address. */
	assert_ptr_equal(seen.place[seen.first].saved + 1, seen.place[seen.first].link);
	assert_false(has_rule(saved_by_expression));
}
#endif

/* ---- where frames are ---- */

static struct capture captured;
static uint64_t places[STACK_FRAMES_MAX + 1];
static bool has_places;

static int capture_in_libc(const void *a, const void *b)
{
	(void)a, (void)b;
	capture_frames(LEDGER_FRAMES_MAX, true, &captured);
	has_places = capture_find_places(&captured, places);
	return 0;
}

static void test_places(void **state)
{
	int values[2] = { 0, 0 };

	(void)state;
	qsort(values, 2, sizeof(values[0]), capture_in_libc);
	assert_true(has_places);
	assert_true(captured.frames > 2);
	for (unsigned int i = 1; i < captured.frames; i++)
		assert_true(places[i] > places[i - 1]);
	assert_int_equal(places[captured.frames], UINT64_MAX);
}

/* ---- walks by rules ---- */

static bool forgets; /* all rules before a walk */

static uint64_t hash_of(const uint64_t *pcs, int count)
{
	uint64_t hash = 0;

	while (count-- > 0)
		hash = frames_hash_on(hash, pcs[count]);
	return hash;
}

static NOT_INLINED void walk_known(void)
{
	const struct caller *caller = CALLER;
	const void *pc = __builtin_extract_return_addr(__builtin_return_address(0));
	static struct frames_walks walks;
	const uint64_t *pcs;
	uint64_t hash;
	void *frames[FRAMES + 1], **wanted = frames;
	int count = without_zeros(wanted, backtrace(wanted, FRAMES));

	if (!caller)
		return;
	while (count > 1 && wanted[1] != pc) { /* a sanitizer's own frame */
		wanted++;
		count--;
	}
	if (forgets) {
		frame_rules_forget();
		assert_int_equal(frames_walk(caller, &walks, FRAMES, false, &pcs, &hash), 0);
	}
	for (int turn = 0; turn < 2; turn++) {
		int walked = (int)frames_walk(caller, &walks, FRAMES, !turn, &pcs, &hash);

		assert_int_equal(walked, count - 1);
		for (int i = 1; i < count; i++)
			assert_true(pcs[i - 1] == (uint64_t)(uintptr_t)wanted[i]);
		assert_true(hash == hash_of(pcs, count - 1));
	}
	for (int turn = 0; forgets && turn < 2; turn++) {
		assert_int_equal(frames_walk(caller, &walks, 3, false, &pcs, &hash), 3);
		assert_true(pcs[2] == (uint64_t)(uintptr_t)wanted[3]);
		assert_true(hash == hash_of(pcs, 2));
	}
}

static int known_below_libc(const void *a, const void *b)
{
	(void)a, (void)b;
	walk_known();
	return 0;
}

/* A frame of another size at each depth. */
static NOT_INLINED void known_below(int depth, size_t bytes)
{
	volatile char *room = __builtin_alloca(bytes);
	int values[2] = { 0, 0 };

	room[0] = 1;
	if (depth)
		known_below(depth - 1, bytes * 2);
	else
		qsort(values, 2, sizeof(values[0]), known_below_libc);
	__asm__ volatile("");
}

static void test_known(void **state)
{
	(void)state;
	forgets = true;
	known_below(8, 24);
	known_below(4, 1000);
	forgets = false;
	known_below(8, 24);
	known_below(8, 24); /* only the return address into this function differs */
	known_below(7, 24);
	known_below(4, 1000);
}

/* The inner frames are as before. Between them and this function, a frame pointer is another one,
 * or the same words lie in a frame of another size. */
static NOT_INLINED void known_from(size_t bytes)
{
	volatile char *room = __builtin_alloca(bytes);

	room[0] = 1;
	known_below(3, 24);
	__asm__ volatile("");
	known_below(3, 24);
	__asm__ volatile("");
}

static void test_known_again(void **state)
{
	(void)state;
	forgets = false;
	for (size_t i = 0; i < 40; i++)
		known_from(16 * (1 + i % 3 + i % 7));
}

/* ---- the cache of stacks ---- */

static uint32_t cached; /* ref that the cache has for the last stack; 0: none */

/* As a wrapper does: the caller is the function that calls the one that this is inlined into. */
static inline __attribute__((always_inline)) uint32_t wrapper(void)
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
		cached = stack_cache_find(recorder, thread_self.state->stack_cache, &key,
					  caller->frame_pointer);
	}
	recorder_leave();
	return ref;
}

/* qsort() of glibc calls this. Its frames are those that the stack has, because all code of a test
 * counts as gpuleak's. */
static NOT_INLINED int from_libc(const void *a, const void *b)
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
#if defined(__x86_64__)
		cmocka_unit_test(test_sorts),
#endif
		cmocka_unit_test(test_places),
		cmocka_unit_test(test_known),
		cmocka_unit_test(test_known_again),
		cmocka_unit_test(test_cache),
	};

	setenv("GPULEAK_STACK_DEPTH", "64", 1);
	process_start();
	assert_int_equal(walk_load(), 0);
	return cmocka_run_group_tests(tests, NULL, remove_ledger);
}
