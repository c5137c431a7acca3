/* SPDX-License-Identifier: MIT
 *
 * The gate between captures and the calls that spoil them: nobody is inside while a stream is
 * captured, whatever the threads do, and a capture ends by its number alone. Runs under TSan
 * too, which checks what the gate orders.
 * Links: test_captures.c, interpose_recording, ledger_dep, cmocka, threads.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "interpose/block/queries.h"
#include "interpose/cuda/captures.h"

#define INSIDERS 4
#define CAPTURERS 2
#define ROUNDS 100000
#define DEFAULT_STREAM ((CUstream)0)
#define PER_THREAD_STREAM ((CUstream)2)

static CUstream stream(uintptr_t number)
{
	return (CUstream)(number * 4096);
}

static bool may_enter(void)
{
	if (!captures_enter())
		return false;
	captures_leave();
	return true;
}

static void begin(CUstream which, bool per_thread, uint64_t context)
{
	captures_beginning();
	captures_begun(which, per_thread, context, true);
}

static void end(CUstream which, bool per_thread)
{
	captures_ended(captures_of(which, per_thread));
}

static void test_one(void **state)
{
	(void)state;
	assert_true(may_enter());
	captures_beginning();
	assert_false(may_enter());
	captures_begun(stream(1), false, 7, false);
	assert_true(may_enter());
	begin(stream(1), false, 7);
	assert_false(may_enter());
	assert_int_equal(captures_of(stream(2), false), 0);
	captures_ended(0);
	assert_false(may_enter());
	end(stream(1), false);
	assert_true(may_enter());
	end(stream(1), false);
	assert_true(may_enter());
}

/* Blocks have a flag while a stream is captured, and marks count on. */
static void test_marked(void **state)
{
	const uint32_t before = query_set_mark();

	(void)state;
	begin(stream(1), false, 7);
	begin(stream(2), false, 7);
	assert_true(query_initial_marked() & LEDGER_BLOCK_CAPTURED);
	assert_int_equal(query_set_mark(), before + 1);
	assert_int_equal(LEDGER_BLOCK_MARK(query_initial_marked()), before + 1);
	end(stream(1), false);
	assert_true(query_initial_marked() & LEDGER_BLOCK_CAPTURED);
	end(stream(2), false);
	assert_int_equal(query_initial_marked(), before + 1);
}

static void test_several(void **state)
{
	(void)state;
	for (uintptr_t i = 1; i <= 2000; i++)
		begin(stream(i), false, 7);
	for (uintptr_t i = 1; i <= 1000; i++)
		end(stream(i), false);
	assert_false(may_enter());
	captures_context_gone(8, captures_last());
	assert_false(may_enter());
	/* More than are listed: those stay, and nobody is let in by mistake. */
	captures_context_gone(7, captures_last());
	for (uintptr_t i = 1; i <= 2000; i++)
		assert_int_equal(captures_of(stream(i), false), 0);
	assert_false(may_enter());
}

/* A call that ended a capture may say so after the handle has its next one. */
static void test_next_life(void **state)
{
	uint64_t first, until;

	(void)state;
	begin(stream(1), false, 7);
	first = captures_of(stream(1), false);
	until = captures_last();
	begin(stream(1), false, 7);
	captures_ended(first);
	assert_false(may_enter());
	captures_context_gone(7, until);
	assert_false(may_enter());
	end(stream(1), false);
	assert_true(may_enter());
}

static void *end_own_default(void *unused)
{
	(void)unused;
	assert_int_equal(captures_of(PER_THREAD_STREAM, false), 0);
	end(DEFAULT_STREAM, true);
	end(PER_THREAD_STREAM, true);
	assert_false(may_enter());
	begin(DEFAULT_STREAM, true, 7);
	end(PER_THREAD_STREAM, false);
	return NULL;
}

/* One handle, a stream for each thread. */
static void test_per_thread(void **state)
{
	pthread_t thread;

	(void)state;
	begin(PER_THREAD_STREAM, false, 7);
	pthread_create(&thread, NULL, end_own_default, NULL);
	pthread_join(thread, NULL);
	assert_false(may_enter());
	end(DEFAULT_STREAM, false);
	assert_false(may_enter());
	end(DEFAULT_STREAM, true);
	assert_true(may_enter());
}

/* ---- fork ---- */

static _Atomic bool is_inside, may_leave;

static void *stay_inside(void *unused)
{
	(void)unused;
	assert_true(captures_enter());
	is_inside = true;
	while (!may_leave)
		sched_yield();
	captures_leave();
	return NULL;
}

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int in_child(void)
{
	int64_t began;

	if (!may_enter() || captures_of(stream(1), false))
		return 1;
	captures_patience_ns = INT64_C(60000000000);
	began = now_ms();
	captures_beginning(); /* who was inside is not here */
	return now_ms() - began > 30000 ? 2 : 0;
}

static void fork_and_check(void)
{
	pid_t child = fork();
	int status = -1;

	if (child == 0)
		_exit(in_child());
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void test_fork(void **state)
{
	pthread_t thread;

	(void)state;
	is_inside = may_leave = false;
	pthread_create(&thread, NULL, stay_inside, NULL);
	while (!is_inside)
		sched_yield();
	captures_patience_ns = 1000000;
	begin(stream(1), false, 7);
	fork_and_check();
	assert_false(may_enter());
	end(stream(1), false);
	may_leave = true;
	pthread_join(thread, NULL);
	assert_true(may_enter());
}

/* A capture waits for who is inside, and not for ever. */
static void test_patience(void **state)
{
	pthread_t thread;
	int64_t began;

	(void)state;
	is_inside = may_leave = false;
	pthread_create(&thread, NULL, stay_inside, NULL);
	while (!is_inside)
		sched_yield();
	captures_patience_ns = 50000000;
	errno = 4711;
	began = now_ms();
	begin(stream(1), false, 7);
	assert_true(now_ms() - began >= 49);
	assert_int_equal(errno, 4711);
	end(stream(1), false);
	may_leave = true;
	pthread_join(thread, NULL);
}

/* ---- many threads ---- */

static int inside[INSIDERS]; /* no atomics: the gate alone orders them */
static _Atomic int captured;
static _Atomic long entered, met;

static _Atomic int capturing; /* threads that still do */

static void pass_time(int rounds)
{
	for (volatile int i = 0; i < rounds; i++)
		;
}

static void *go_in(void *number)
{
	int *own = &inside[(uintptr_t)number];

	while (capturing) {
		if (!captures_enter())
			continue;
		*own = 1;
		entered++;
		met += captured != 0;
		pass_time(20);
		met += captured != 0;
		*own = 0;
		captures_leave();
	}
	return NULL;
}

static void *capture(void *number)
{
	CUstream own = stream((uintptr_t)number + 1);

	for (int i = 0; i < ROUNDS; i++) {
		captures_beginning();
		captured++;
		for (int j = 0; j < INSIDERS; j++)
			met += inside[j];
		pass_time(i % 64);
		captured--;
		captures_begun(own, false, 7, i % 3 != 0);
		if (i % 3)
			end(own, false);
		pass_time(200);
	}
	capturing--;
	return NULL;
}

static void test_threads(void **state)
{
	pthread_t threads[INSIDERS + CAPTURERS];

	(void)state;
	captures_patience_ns = INT64_C(60000000000);
	capturing = CAPTURERS;
	for (uintptr_t i = 0; i < INSIDERS + CAPTURERS; i++)
		pthread_create(&threads[i], NULL, i < INSIDERS ? go_in : capture, (void *)i);
	for (int i = 0; i < INSIDERS + CAPTURERS; i++)
		pthread_join(threads[i], NULL);
	assert_true(entered > 0);
	assert_int_equal(met, 0);
	assert_true(may_enter());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one),
		cmocka_unit_test(test_marked),	 cmocka_unit_test(test_next_life),
		cmocka_unit_test(test_per_thread), cmocka_unit_test(test_fork),
		cmocka_unit_test(test_patience), cmocka_unit_test(test_threads),
		cmocka_unit_test(test_several), /* the last: some of its captures never end */
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
