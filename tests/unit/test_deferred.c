/* SPDX-License-Identifier: MIT
 *
 * Deferred frees of an OpenCL buffer: the last clReleaseMemObject has returned, and the driver has
 * not called back yet. If the application retains the handle again, the buffer is live as before.
 * And releases that end in other ways: left by a jump, refused, or forgotten by the table.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>

#include "interpose/block/block_table.h"
#include "interpose/block/blocks.h"
#include "interpose/block/deferred_totals.h"
#include "interpose/block/driver_call.h"
#include "own_ledger.h"
#include "interpose/process/start.h"
#include "interpose/recorder/recorder.h"
#include "interpose/recorder/live_bytes.h"
#include "interpose/recorder/thread_state.h"
#include "interpose/stack/unwinder.h"

#define HANDLE 0x10000u
#define WATCHED 7u
#define BYTES 512u

static struct call create = { &hooks[HOOK_clCreateBuffer], NULL, SPACE_CL_HANDLE, WATCHED };
static struct call retain = { &hooks[HOOK_clRetainMemObject], NULL, SPACE_CL_HANDLE, 0 };
static struct call release = { &hooks[HOOK_clReleaseMemObject], NULL, SPACE_CL_HANDLE, 0 };

/* Releases HANDLE. The driver does not call back meanwhile. */
static void release_buffer(void)
{
	struct freeing freeing;

	record_releasing(&release, HANDLE, &freeing);
	record_released(&release, &freeing, OUTCOME_DONE, 0);
}

/* Returns whether HANDLE has a live block, and its state in the ledger in *RET_STATE. */
static bool is_live(uint32_t *ret_state)
{
	struct recorder *recorder = recorder_enter();
	struct ledger_block block = { 0 };
	bool live = block_live(recorder, key_in(SPACE_CL_HANDLE, HANDLE), &block);

	*ret_state = LEDGER_BLOCK_STATE(block.state);
	recorder_leave();
	return live;
}

/* Returns the bytes of all deferred frees. */
static uint64_t deferred_bytes(void)
{
	struct recorder *recorder = recorder_enter();
	int64_t bytes = 0;

	for (unsigned int i = 0; i < recorder->thread_states->count; i++)
		bytes += atomic_load(&recorder->thread_states->state[i].deferred_bytes);
	recorder_leave();
	return (uint64_t)bytes;
}

static void retained_again(void **state)
{
	uint32_t block_state;

	(void)state;
	record_made(&create, HANDLE, BYTES, 0, 0, 0);
	release_buffer();
	assert_false(is_live(&block_state));
	assert_int_equal(deferred_bytes(), BYTES);

	assert_true(record_retained(&retain, HANDLE));
	assert_true(is_live(&block_state));
	assert_int_equal(block_state, LEDGER_BLOCK_LIVE);
	assert_int_equal(deferred_bytes(), 0);

	release_buffer();
	assert_false(is_live(&block_state));
	assert_int_equal(deferred_bytes(), BYTES);
	record_destroyed(SPACE_CL_HANDLE, HANDLE, WATCHED);
	assert_int_equal(deferred_bytes(), 0);
	assert_int_equal(live_bytes_total(recorder_now()), 0);
	assert_int_equal(recorder_now()->header->errors, 0);
}

/* Nothing is left of HANDLE's block. */
static void assert_ended(void)
{
	uint32_t block_state;

	assert_false(is_live(&block_state));
	assert_int_equal(deferred_bytes(), 0);
	assert_int_equal(live_bytes_total(recorder_now()), 0);
	assert_int_equal(recorder_now()->header->errors, 0);
}

static void *destroy(void *unused)
{
	record_destroyed(SPACE_CL_HANDLE, HANDLE, WATCHED);
	return unused;
}

static void destroy_by_thread(void)
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, destroy, NULL), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

/* The application's callback leaves the release by a jump. */
static void left(void **state)
{
	struct freeing freeing;
	uint32_t block_state;

	(void)state;
	record_made(&create, HANDLE, BYTES, 0, 0, 0);
	record_releasing(&release, HANDLE, &freeing);
	assert_int_equal(deferred_bytes(), BYTES);
	record_call_freeing(&freeing);
	record_calls_end();
	assert_true(is_live(&block_state));
	assert_int_equal(deferred_bytes(), 0);

	record_releasing(&release, HANDLE, &freeing);
	record_call_freeing(&freeing);
	destroy(NULL);
	record_calls_end();
	assert_ended();
}

/* The driver refuses: the buffer is live again and still watched, unless its end was reported. */
static void refused(void **state)
{
	struct freeing freeing;
	uint32_t block_state;

	(void)state;
	record_made(&create, HANDLE, BYTES, 0, 0, 0);
	record_releasing(&release, HANDLE, &freeing);
	record_released(&release, &freeing, OUTCOME_REFUSED, -5);
	assert_true(is_live(&block_state));
	assert_int_equal(deferred_bytes(), 0);
	release_buffer();
	assert_int_equal(deferred_bytes(), BYTES);
	destroy(NULL);
	assert_ended();

	record_made(&create, HANDLE, BYTES, 0, 0, 0);
	record_releasing(&release, HANDLE, &freeing);
	destroy_by_thread();
	record_released(&release, &freeing, OUTCOME_REFUSED, -5);
	assert_ended();
}

/* So many other blocks end that the table forgets the entries of those that ended before. */
static void end_many(void)
{
	struct call other = { &hooks[HOOK_clCreateBuffer], NULL, SPACE_CL_HANDLE, 0 };
	struct freeing freeing;

	for (uint64_t i = 1; i <= 2 * BLOCK_SHARDS * BLOCK_PAST_MAX; i++) {
		record_made(&other, HANDLE + i * 64, BYTES, 0, 0, 0);
		record_releasing(&release, HANDLE + i * 64, &freeing);
		record_released(&release, &freeing, OUTCOME_DONE, 0);
	}
}

static void forgotten(void **state)
{
	struct freeing freeing;
	uint32_t block_state;

	(void)state;
	record_made(&create, HANDLE, BYTES, 0, 0, 0);
	record_releasing(&release, HANDLE, &freeing);
	end_many();
	record_released(&release, &freeing, OUTCOME_DONE, 0);
	assert_ended();

	record_made(&create, HANDLE, BYTES, 0, 0, 0);
	record_releasing(&release, HANDLE, &freeing);
	end_many();
	record_released(&release, &freeing, OUTCOME_REFUSED, -5);
	assert_true(is_live(&block_state));
	release_buffer();
	assert_int_equal(deferred_bytes(), BYTES);
	destroy(NULL);
	assert_ended();
}

static void make_unused(void)
{
	struct call call = create;

	call.watched |= WATCHED_LATER;
	record_made(&call, HANDLE, BYTES, 0, 0, 0);
}

/* Returns the number that the first use of HANDLE yields. */
static uint64_t use(void)
{
	struct recorder *recorder = recorder_enter();
	uint64_t watch = 0;

	assert_true(record_use(recorder, SPACE_CL_HANDLE, HANDLE, &watch) != 0);
	recorder_leave();
	return watch;
}

/* A buffer that nothing used ends with its release, and without a report of the driver. After its
 * first use, or if its release requests the report, it ends when the driver reports that. */
static void unused(void **state)
{
	struct freeing freeing;
	uint32_t block_state;

	(void)state;
	make_unused();
	assert_true(record_name_of(recorder_now(), SPACE_CL_HANDLE, HANDLE) != 0);
	release_buffer();
	assert_ended();

	make_unused();
	assert_int_equal(use(), WATCHED);
	assert_int_equal(use(), 0);
	release_buffer();
	assert_int_equal(deferred_bytes(), BYTES);
	destroy_by_thread();
	assert_ended();

	make_unused();
	assert_int_equal(use(), WATCHED);
	record_unwatched(SPACE_CL_HANDLE, HANDLE, WATCHED);
	release_buffer();
	assert_ended();

	make_unused();
	assert_true(record_retained(&retain, HANDLE));
	release_buffer();
	assert_true(is_live(&block_state));
	record_releasing(&release, HANDLE, &freeing);
	assert_int_equal(freeing.unused, WATCHED);
	record_watch_release(&freeing);
	record_call_freeing(&freeing);
	record_call_freed(&freeing);
	record_released(&release, &freeing, OUTCOME_DONE, 0);
	assert_int_equal(deferred_bytes(), BYTES);
	destroy_by_thread();
	assert_ended();

	make_unused();
	record_releasing(&release, HANDLE, &freeing);
	record_watch_release(&freeing);
	record_released(&release, &freeing, OUTCOME_REFUSED, -5);
	assert_int_equal(deferred_bytes(), 0);
	assert_true(is_live(&block_state));
	assert_int_equal(use(), 0);
	record_releasing(&release, HANDLE, &freeing);
	record_call_freeing(&freeing);
	destroy(NULL);
	record_call_freed(&freeing);
	record_released(&release, &freeing, OUTCOME_DONE, 0);
	assert_ended();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(retained_again),
		cmocka_unit_test(left),
		cmocka_unit_test(refused),
		cmocka_unit_test(forgotten),
		cmocka_unit_test(unused),
	};

	process_start();
	unwinder_load(); /* see test_storm.c */
	return cmocka_run_group_tests(tests, NULL, remove_ledger);
}
