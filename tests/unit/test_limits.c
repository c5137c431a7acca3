/* SPDX-License-Identifier: MIT
 *
 * GPULEAK_LIMIT and GPULEAK_FAIL_AT among threads, against the recording half itself: a limit
 * is never passed by a byte, every way in which a block or a call ends gives its part back,
 * and N means one call. Runs under TSan too.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "interpose/block/blocks.h"
#include "interpose/block/driver_call.h"
#include "interpose/base/config.h"
#include "interpose/block/limit.h"
#include "own_ledger.h"
#include "interpose/block/pool_counters.h"
#include "interpose/process/start.h"
#include "interpose/recorder/recorder.h"
#include "interpose/stack/unwinder.h"

#define THREADS 8
#define ROUNDS 20000
#define LIMIT 1000
#define CONTEXT 77

/* Each thread has calls of its own, as wrappers have. */
static __thread struct call make = { &hooks[HOOK_cuMemAlloc_v2], NULL, SPACE_MEMORY, 0 };
static __thread struct call end = { &hooks[HOOK_cuMemFree_v2], NULL, SPACE_MEMORY, 0 };
static __thread struct call pinned = { &hooks[HOOK_cuMemHostAlloc], NULL, SPACE_MEMORY, 0 };
static __thread struct call ipc = { &hooks[HOOK_cuIpcOpenMemHandle_v2], NULL, SPACE_MEMORY, 0 };
static __thread struct call buffer = { &hooks[HOOK_clCreateBuffer], NULL, SPACE_CL_HANDLE, 0 };
static __thread struct call sub_buffer = { &hooks[HOOK_clCreateSubBuffer], NULL, SPACE_CL_HANDLE,
					   0 };

/* A driver that has room for exactly what the limit lets through. */
static _Atomic int64_t in_driver;
static _Atomic int overdrawn;
static _Atomic uint64_t addresses = 0x1000;

static uint64_t driver_alloc(int64_t bytes)
{
	if (atomic_fetch_add(&in_driver, bytes) + bytes > LIMIT)
		atomic_fetch_add(&overdrawn, 1);
	return atomic_fetch_add(&addresses, 512);
}

static void driver_free(int64_t bytes)
{
	atomic_fetch_sub(&in_driver, bytes);
}

static bool try_alloc(int64_t bytes, int64_t estimate, uint64_t context, uint64_t *ret)
{
	if (LIMITS_REFUSE(&make, 0, estimate))
		return false;
	*ret = driver_alloc(bytes);
	record_made(&make, *ret, (uint64_t)bytes, context, 0, 0);
	limits_done();
	return true;
}

static void release(uint64_t address, int64_t bytes, enum outcome outcome)
{
	struct freeing freeing;

	record_freeing(&end, address, &freeing);
	if (outcome == OUTCOME_DONE)
		driver_free(bytes);
	record_freed(&end, &freeing, outcome, (int)outcome);
}

static bool is_refused(const struct call *call, int device, uint64_t bytes)
{
	bool refused = LIMITS_REFUSE(call, device, bytes);

	limits_done();
	return refused;
}

static uint64_t held(void)
{
	return (uint64_t)LIMIT - limits_left(API_CUDA, 0);
}

/* ---- threads ---- */

static _Atomic int done;
static _Atomic uint64_t passed, refused;

/* Frees that are refused, and calls that the driver fails, between those that go well. */
static void one_block(unsigned int random)
{
	int64_t bytes = 1 + (random >> 4) % 400;
	uint64_t address;

	if ((random & 15) == 0) {
		if (!LIMITS_REFUSE(&make, 0, bytes))
			limits_done(); /* the driver failed */
		return;
	}
	if (!try_alloc(bytes, bytes, 0, &address)) {
		atomic_fetch_add(&refused, 1);
		return;
	}
	atomic_fetch_add(&passed, 1);
	if ((random & 0x70000) == 0)
		release(address, bytes, OUTCOME_REFUSED);
	release(address, bytes, OUTCOME_DONE);
}

/* Threads stay: see test_storm.c. */
static void *storm(void *seed)
{
	unsigned int random = (unsigned int)(uintptr_t)seed;

	for (int i = 0; i < ROUNDS; i++) {
		random = random * 1103515245u + 12345u;
		one_block(random >> 3);
	}
	atomic_fetch_add(&done, 1);
	for (;;)
		pause();
	return NULL;
}

static void run_threads(void *(*function)(void *))
{
	pthread_t thread;

	atomic_store(&done, 0);
	for (uintptr_t i = 1; i <= THREADS; i++) {
		assert_int_equal(pthread_create(&thread, NULL, function, (void *)i), 0);
		pthread_detach(thread);
	}
	while (atomic_load(&done) < THREADS)
		usleep(1000);
}

static void test_threads(void **state)
{
	(void)state;
	run_threads(storm);
	assert_int_equal(atomic_load(&overdrawn), 0);
	assert_int_equal(atomic_load(&in_driver), 0);
	assert_true(atomic_load(&passed) > THREADS);
	assert_true(atomic_load(&refused) > THREADS);
	assert_int_equal(held(), 0);
	assert_int_equal(recorder_now()->pools_record->pools->refused >= atomic_load(&refused), 1);
}

/* ---- one ---- */

static void test_edges(void **state)
{
	uint64_t address;

	(void)state;
	assert_true(is_refused(&make, 0, LIMIT + 1));
	assert_true(is_refused(&make, 0, UINT64_MAX));
	assert_true(is_refused(&make, 0, (uint64_t)INT64_MAX + 1));
	assert_false(is_refused(&make, 0, LIMIT));
	assert_int_equal(held(), 0);
	assert_true(try_alloc(LIMIT, LIMIT, 0, &address));
	assert_int_equal(limits_left(API_CUDA, 0), 0);
	assert_true(is_refused(&make, 0, 1));
	assert_false(is_refused(&make, 0, 0));
	assert_false(is_refused(&make, 1, LIMIT)); /* another device */
	release(address, LIMIT, OUTCOME_DONE);
	assert_int_equal(held(), 0);
	assert_int_equal(limits_of(API_CUDA, 0), LIMIT);
	assert_int_equal(limits_of(API_CUDA, -1), UINT64_MAX);
	assert_int_equal(limits_of(API_CUDA, LIMITS_DEVICES), UINT64_MAX);
}

/* Pitched memory and images are larger, or smaller, than could be said before the call. */
static void test_adjusted(void **state)
{
	uint64_t address;

	(void)state;
	assert_true(try_alloc(700, 300, 0, &address));
	assert_int_equal(held(), 700);
	release(address, 700, OUTCOME_DONE);
	assert_true(try_alloc(100, 900, 0, &address));
	assert_int_equal(held(), 100);
	release(address, 100, OUTCOME_DONE);
	assert_int_equal(held(), 0);
}

static void test_context_gone(void **state)
{
	uint64_t address[3];

	(void)state;
	for (int i = 0; i < 3; i++)
		assert_true(try_alloc(300, 300, i == 2 ? CONTEXT + 1 : CONTEXT, &address[i]));
	assert_int_equal(held(), 900);
	record_context_gone(&(struct call){ &hooks[HOOK_cuCtxDestroy_v2] }, CONTEXT);
	driver_free(600);
	assert_int_equal(held(), 300);
	release(address[2], 300, OUTCOME_LATE);
	driver_free(300);
	assert_int_equal(held(), 0);
}

/* Handed out again without an end that was seen: the first block ends with it. */
static void test_stale(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++) {
		assert_false(LIMITS_REFUSE(&make, 0, 400));
		record_made(&make, 0x5000, 400, 0, 0, 0);
		limits_done();
	}
	assert_int_equal(held(), 400);
	atomic_fetch_add(&in_driver, 400);
	release(0x5000, 400, OUTCOME_DONE);
	assert_int_equal(held(), 0);
}

/* Host memory, others' memory, parts of a block; another API's devices are its own. */
static void test_not_counted(void **state)
{
	(void)state;
	assert_false(is_refused(&pinned, 0, LIMIT + 1));
	assert_false(is_refused(&ipc, 0, LIMIT + 1));
	assert_false(is_refused(&sub_buffer, 0, LIMIT + 1));
	assert_true(is_refused(&buffer, 0, LIMIT + 1));
	record_made(&pinned, 0x7000, LIMIT, 0, 0, 0);
	record_made(&sub_buffer, 0x8000, LIMIT, 0, 0, 0);
	record_made(&buffer, 0x9000, LIMIT, 0, 0, 0);
	assert_int_equal(held(), 0);
	assert_true(is_refused(&buffer, 0, 1));
	assert_false(is_refused(&make, 0, LIMIT));
	release(0x7000, 0, OUTCOME_DONE);
	assert_int_equal(held(), 0);
}

/* A call that a driver makes inside another one is not the application's. */
static void test_inside_driver(void **state)
{
	(void)state;
	record_call();
	assert_false(LIMITS_REFUSE(&make, 0, LIMIT + 1));
	record_call_done();
	assert_int_equal(held(), 0);
}

/* What the parent holds is not the child's, and its calls are not either. */
static void test_fork(void **state)
{
	uint64_t address;
	int status = -1;
	pid_t child;

	(void)state;
	assert_true(try_alloc(600, 600, 0, &address));
	child = fork();
	if (child == 0) {
		bool fine = !is_refused(&make, 0, LIMIT) && is_refused(&make, 0, LIMIT + 1) &&
			    limits_left(API_CUDA, 0) == LIMIT &&
			    atomic_load(&recorder_now()->limits->calls) == 0;

		if (recorder_now())
			unlink(recorder_now()->writer.path);
		_exit(fine ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(held(), 600);
	release(address, 600, OUTCOME_DONE);
	assert_int_equal(held(), 0);
}

/* ---- the Nth ---- */

static _Atomic uint64_t failed;

static void *count(void *seed)
{
	(void)seed;
	for (int i = 0; i < ROUNDS; i++)
		atomic_fetch_add(&failed, is_refused(&make, LIMITS_NO_DEVICE, 0));
	atomic_fetch_add(&done, 1);
	for (;;)
		pause();
	return NULL;
}

static void count_from(long long nth)
{
	atomic_store(&recorder_now()->limits->calls, 0);
	atomic_store(&failed, 0);
	config.fail_at = nth;
	recorder_now()->pools_record->pools->injected = 0;
}

static void test_nth(void **state)
{
	(void)state;
	count_from(3);
	assert_false(is_refused(&make, 0, 1));
	assert_false(is_refused(&ipc, 0, 0)); /* takes no memory: no such call */
	record_call();
	assert_false(is_refused(&make, 0, 1));
	record_call_done();
	assert_false(is_refused(&pinned, 0, 1));
	assert_true(is_refused(&buffer, 0, 1));
	assert_false(is_refused(&make, 0, 1));
	count_from(-2);
	assert_false(is_refused(&make, 0, 1));
	assert_true(is_refused(&make, 0, 1));
	assert_true(is_refused(&make, 0, 1));
	count_from(THREADS * ROUNDS / 2);
	run_threads(count);
	assert_int_equal(atomic_load(&failed), 1);
	assert_int_equal(recorder_now()->pools_record->pools->injected, 1);
	count_from(-100);
	run_threads(count);
	assert_int_equal(atomic_load(&failed), THREADS * ROUNDS - 99);
	count_from(0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fork), /* while there is one thread */
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_edges),
		cmocka_unit_test(test_adjusted),
		cmocka_unit_test(test_context_gone),
		cmocka_unit_test(test_stale),
		cmocka_unit_test(test_inside_driver),
		cmocka_unit_test(test_nth),
		cmocka_unit_test(test_not_counted),
	};

	setenv("GPULEAK_STACK_DEPTH", "16", 1);
	setenv("GPULEAK_LIMIT", "1000", 1);
	process_start();
	unwinder_load(); /* see test_storm.c */
	recorder_touch();
	return cmocka_run_group_tests(tests, NULL, remove_ledger);
}
