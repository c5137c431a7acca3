/* SPDX-License-Identifier: MIT
 *
 * The tables of used kernels: each handle is new once, also if several threads use it first at the
 * same time, and when both tables are full the other handles count as used.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "interpose/cuda/wrappers/first_use.h"
#include "interpose/dispatch/hooks.h"
#include "interpose/process/start.h"
#include "interpose/recorder/recorder.h"
#include "own_ledger.h"

#define THREADS 4
#define SHARED_HANDLES 4000u
#define HANDLES 400000u /* so many that each line of both tables becomes full */
#define MARKS /* handles that both tables have room for */ \
	(FIRST_USE_MARKS * (FIRST_USE_LINES + FIRST_USE_MORE_LINES))

static _Atomic unsigned int arrived;
static _Atomic uint8_t shared_new[SHARED_HANDLES];

/* As the driver's, handles are addresses some hundred bytes apart. */
static uint64_t handle_of(unsigned int number)
{
	return 0x555500000000u + number * 0x140u;
}

static bool begin(uint64_t handle)
{
	struct call call = { &hooks[HOOK_cuLaunchKernel], NULL, SPACE_MEMORY };
	struct first_use first;

	if (!first_use_begin(&first, handle))
		return false;
	first_use_end(&call, &first, false);
	return true;
}

/* All threads come to each handle at the same time. */
static void *begin_shared(void *unused)
{
	for (unsigned int i = 0; i < SHARED_HANDLES; i++) {
		atomic_fetch_add(&arrived, 1);
		while (atomic_load(&arrived) < THREADS * (i + 1))
			sched_yield();
		if (begin(handle_of(i)))
			atomic_fetch_add(&shared_new[i], 1);
	}
	return unused;
}

static void test_threads(void **state)
{
	pthread_t thread[THREADS];

	(void)state;
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, begin_shared, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(thread[i], NULL), 0);
	for (unsigned int i = 0; i < SHARED_HANDLES; i++)
		assert_int_equal(shared_new[i], 1);
}

static void test_full_tables(void **state)
{
	unsigned int entered = SHARED_HANDLES;

	(void)state;
	assert_false(begin(0));
	for (unsigned int i = SHARED_HANDLES; i < HANDLES; i++)
		entered += begin(handle_of(i));
	assert_int_equal(entered, MARKS);
	for (unsigned int i = 0; i < HANDLES; i++)
		assert_false(begin(handle_of(i)));
	assert_false(begin(handle_of(HANDLES)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_full_tables),
	};

	setenv("GPULEAK_STACK_DEPTH", "0", 1);
	process_start();
	recorder_touch();
	return cmocka_run_group_tests(tests, NULL, remove_ledger);
}
