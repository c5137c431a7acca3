/* SPDX-License-Identifier: MIT
 *
 * submits.h by its argument: threads submit to a driver, note it, and free; whoever frees
 * shares the last ticket if the epoch is that ticket's, and else records one. Whatever was
 * submitted before a free must be covered by the ticket that the free goes by. The driver is a
 * counter behind a lock, as a real one's queue is. Runs under TSan too.
 * Links: test_submits.c, interpose_recording, ledger_dep, cmocka, threads.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <pthread.h>

#include "interpose/cuda/cuda_rows.h"
#include "interpose/cuda/captures.h"
#include "interpose/dispatch/api.h"
#include "interpose/dispatch/hooks.h"
#include "interpose/base/submit_epoch.h"

#define THREADS 6
#define ROUNDS 400000

static pthread_mutex_t driver_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t submitted; /* with the lock held */

static uint64_t driver_submit(void)
{
	uint64_t number;

	pthread_mutex_lock(&driver_lock);
	number = ++submitted;
	pthread_mutex_unlock(&driver_lock);
	return number;
}

/* What an event that is recorded now covers. */
static uint64_t driver_record(void)
{
	uint64_t covered;

	pthread_mutex_lock(&driver_lock);
	covered = submitted;
	pthread_mutex_unlock(&driver_lock);
	return covered;
}

/* Published as the pool does it: after the event was recorded. Packed into one word. */
struct ticket {
	uint64_t epoch, covers;
};
static _Atomic uint64_t last_ticket; /* covers << 32 | epoch */
static _Atomic long shared, recorded, uncovered;

static struct ticket ticket_for_free(void)
{
	uint64_t epoch = submits_epoch(), last = atomic_load(&last_ticket), made;
	struct ticket ticket = { last & UINT32_MAX, last >> 32 };

	if (ticket.epoch == epoch) {
		shared++;
		return ticket;
	}
	ticket = (struct ticket){ epoch, driver_record() };
	recorded++;
	made = ticket.covers << 32 | ticket.epoch;
	while ((last & UINT32_MAX) < epoch &&
	       !atomic_compare_exchange_weak(&last_ticket, &last, made))
		;
	return ticket;
}

static pthread_barrier_t together;

static void *work(void *number)
{
	uint64_t seed = (uint64_t)(uintptr_t)number * 2654435761u + 1;

	pthread_barrier_wait(&together);
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t mine = 0;

		seed = seed * 6364136223846793005u + 1442695040888963407u;
		if (seed >> 33 & 1) {
			mine = driver_submit();
			submits_note();
		}
		if (seed >> 34 & 1)
			uncovered += ticket_for_free().covers < mine;
	}
	return NULL;
}

static void test_threads(void **state)
{
	pthread_t threads[THREADS];

	(void)state;
	pthread_barrier_init(&together, NULL, THREADS);
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, work, (void *)i);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_true(shared > 0);
	assert_true(recorded > 0);
	assert_int_equal(uncovered, 0);
}

static void test_epochs(void **state)
{
	uint64_t first = submits_epoch();

	(void)state;
	assert_int_equal(submits_epoch(), first);
	submits_note();
	submits_note();
	assert_int_equal(submits_epoch(), first + 1);
	assert_int_equal(submits_epoch(), first + 1);
}

/* ---- the wrappers ---- */

static CUresult answer;

static CUresult driver_launch(CUfunction function, unsigned int a, unsigned int b,
			      unsigned int c, unsigned int d, unsigned int e, unsigned int f,
			      unsigned int shared_bytes, CUstream stream, void **params,
			      void **extra)
{
	assert_true(function && a == 1 && b == 2 && c == 3 && d == 4 && e == 5 && f == 6);
	assert_true(shared_bytes == 7 && stream && params && extra);
	errno = 4711;
	return answer;
}

static void launch(CUresult r)
{
	void *something[1];
	uint64_t before = submits_epoch();

	answer = r;
	errno = 0;
	assert_int_equal(cuLaunchKernel((CUfunction)(void *)something, 1, 2, 3, 4, 5, 6, 7,
					(CUstream)(void *)something, something, something),
			 r);
	assert_int_equal(errno, 4711);
	assert_int_equal(submits_epoch(), before + 1);
}

/* What failed may have done something first. */
static void test_wrapper(void **state)
{
	(void)state;
	atomic_store(&hooks[HOOK_cuLaunchKernel].direct, (void *)driver_launch);
	launch(0);
	launch(719);
}

static void test_classes(void **state)
{
	(void)state;
	assert_true(class_submits("cuMemMapArrayAsync"));
	assert_true(class_submits("cuFabricCpyBatchAsync_ptsz"));
	assert_true(class_submits("cuSomethingOfTomorrow"));
	assert_false(class_submits("cuEventRecord"));
	assert_false(class_submits("cuCtxGetCurrent"));
	assert_true(class_submits("clSomethingOfTomorrow"));
	assert_true(submits_certain());
	submits_unknown();
	assert_false(submits_certain());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_epochs),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_wrapper),
		cmocka_unit_test(test_classes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
