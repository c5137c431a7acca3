/* SPDX-License-Identifier: MIT
 *
 * What a clReleaseMemObject of a buffer costs the table of blocks. Of the last one it is counted
 * where the driver calls back inside the release, as NVIDIA's and PoCL do, and where another thread
 * calls back.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>

#include "counted.h"

#include "interpose/block/blocks.h"
#include "interpose/block/driver_call.h"
#include "own_ledger.h"
#include "interpose/process/start.h"
#include "interpose/recorder/recorder.h"
#include "interpose/recorder/live_bytes.h"
#include "interpose/stack/unwinder.h"

#define HANDLE 0x10000u

/* Each thread has calls of its own, as wrappers have. */
static __thread struct call create = { &hooks[HOOK_clCreateBuffer], NULL, SPACE_CL_HANDLE, 7 };
static __thread struct call retain = { &hooks[HOOK_clRetainMemObject], NULL, SPACE_CL_HANDLE, 0 };
static __thread struct call release = { &hooks[HOOK_clReleaseMemObject], NULL, SPACE_CL_HANDLE, 0 };

static unsigned int shard_locks, lookups;

void counted_lock(const void *lock)
{
	const struct recorder *recorder = recorder_now();
	const uint8_t *shards = recorder ? (const uint8_t *)recorder->blocks : NULL;
	const uint8_t *at = lock;

	shard_locks += shards && at >= shards && at < shards + sizeof(*recorder->blocks);
}

void counted_lookup(void)
{
	lookups++;
}

static void *destroy(void *unused)
{
	record_destroyed(SPACE_CL_HANDLE, HANDLE, create.watched);
	return unused;
}

static void release_buffer(bool by_thread)
{
	struct freeing freeing;
	pthread_t thread;

	record_made(&create, HANDLE, 512, 0, 0, 0);
	shard_locks = lookups = 0;
	record_releasing(&release, HANDLE, &freeing);
	record_call_freeing(&freeing);
	if (by_thread) {
		assert_int_equal(pthread_create(&thread, NULL, destroy, NULL), 0);
		pthread_join(thread, NULL);
	} else {
		destroy(NULL);
	}
	record_call_freed(&freeing);
	record_released(&release, &freeing, OUTCOME_DONE, 0);
}

static void freed(struct recorder *recorder)
{
	const struct ledger_header *header = recorder->header;

	assert_int_equal(header->errors, 0);
	assert_int_equal(live_bytes_total(recorder), 0);
}

static void test_inside(void **state)
{
	(void)state;
	release_buffer(false);
	assert_int_equal(shard_locks, 1);
	assert_int_equal(lookups, 1);
	freed(recorder_now());
}

static void test_by_thread(void **state)
{
	(void)state;
	release_buffer(true);
	assert_int_equal(shard_locks, 3);
	assert_int_equal(lookups, 3);
	freed(recorder_now());
}

/* A release that is not the last one takes the lock once, if the buffer has a history. */
static void test_shared(void **state)
{
	struct freeing freeing;

	(void)state;
	record_made(&create, HANDLE, 512, 0, 0, 0);
	assert_true(record_retained(&retain, HANDLE));
	shard_locks = lookups = 0;
	record_releasing(&release, HANDLE, &freeing);
	record_released(&release, &freeing, OUTCOME_DONE, 0);
	assert_int_equal(shard_locks, 1);
	assert_int_equal(lookups, 1);
	record_releasing(&release, HANDLE, &freeing);
	destroy(NULL);
	record_released(&release, &freeing, OUTCOME_DONE, 0);
	freed(recorder_now());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_inside),
		cmocka_unit_test(test_by_thread),
		cmocka_unit_test(test_shared),
	};

	setenv("GPULEAK_STACK_DEPTH", "16", 1);
	process_start();
	unwinder_load(); /* see test_storm.c */
	return cmocka_run_group_tests(tests, NULL, remove_ledger);
}
