/* SPDX-License-Identifier: MIT
 *
 * Many threads on few handles, against the recording half itself: retained, released, refused,
 * freed inside the last release or some time later by another thread, and handed out again
 * at once. Nothing may be left, and nothing may be called an error. Runs under TSan too.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "interpose/block/blocks.h"
#include "interpose/block/driver_call.h"
#include "interpose/block/mappings.h"
#include "own_ledger.h"
#include "ledger/reader.h"
#include "interpose/opencl/kernel_args.h"
#include "interpose/process/start.h"
#include "interpose/recorder/recorder.h"
#include "interpose/recorder/live_bytes.h"
#include "interpose/recorder/thread_state.h"
#include "interpose/stack/unwinder.h"

#define THREADS 8
#define HANDLES 32
#define ROUNDS 10000
#define BYTES 512

/* Each thread has calls of its own, as wrappers have. */
static __thread struct call create = { &hooks[HOOK_clCreateBuffer], NULL, SPACE_CL_HANDLE, true };
static __thread struct call retain = { &hooks[HOOK_clRetainMemObject], NULL, SPACE_CL_HANDLE,
				       false };
static __thread struct call release = { &hooks[HOOK_clReleaseMemObject], NULL, SPACE_CL_HANDLE,
					false };
static __thread struct call map = { &hooks[HOOK_clEnqueueMapBuffer], NULL, SPACE_CL_HANDLE, false };
static __thread struct call unmap = { &hooks[HOOK_clEnqueueUnmapMemObject], NULL, SPACE_CL_HANDLE,
				      false };
static __thread struct call marker = { &hooks[HOOK_clEnqueueMarkerWithWaitList], NULL,
				    SPACE_CL_HANDLE, false };
static __thread struct call create_kernel = { &hooks[HOOK_clCreateKernel], NULL, SPACE_CL_HANDLE,
					      true };
static __thread struct call release_kernel = { &hooks[HOOK_clReleaseKernel], NULL, SPACE_CL_HANDLE,
					       false };
static __thread struct call release_event = { &hooks[HOOK_clReleaseEvent], NULL, SPACE_CL_HANDLE,
					   false };

static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t pool[HANDLES + 1]; /* and one of the last test */
static int pooled;
static _Atomic uint64_t last_number = 1;
static uint64_t numbers[HANDLES]; /* see call.watched: one for each buffer that has a handle */

#define FIRST_HANDLE 0x5500000000u
static uint64_t *number_of(uint64_t handle)
{
	return &numbers[(handle - FIRST_HANDLE) / BYTES];
}

static _Atomic uint64_t later[8]; /* released, but commands of some sort hold them */

static uint64_t take_handle(void)
{
	uint64_t handle = 0;

	pthread_mutex_lock(&pool_lock);
	if (pooled)
		handle = pool[--pooled];
	pthread_mutex_unlock(&pool_lock);
	return handle;
}

/* The driver's end of an object: its callback first, then the handle may be another's. */
static void destroy(uint64_t handle)
{
	if (!handle)
		return;
	record_destroyed(SPACE_CL_HANDLE, handle, *number_of(handle));
	pthread_mutex_lock(&pool_lock);
	pool[pooled++] = handle;
	pthread_mutex_unlock(&pool_lock);
}

/* Not the last reference: the driver refuses it at times. */
static void release_one(uint64_t handle, bool refuse)
{
	struct freeing freeing;

	record_releasing(&release, handle, &freeing);
	if (refuse) {
		record_released(&release, &freeing, OUTCOME_REFUSED, -5);
		record_releasing(&release, handle, &freeing);
	}
	record_released(&release, &freeing, OUTCOME_DONE, 0);
}

static void release_last(uint64_t handle, unsigned int random)
{
	struct freeing freeing;

	record_releasing(&release, handle, &freeing);
	if (random & 1) {
		if (random & 2)
			record_call_freeing(&freeing);
		destroy(handle);
		if (random & 2)
			record_call_freed(&freeing);
		record_released(&release, &freeing, OUTCOME_DONE, 0);
		return;
	}
	if (random & 2) {
		record_released(&release, &freeing, OUTCOME_REFUSED, -5);
		record_releasing(&release, handle, &freeing);
	}
	/* Any thread may free it from here on, this call's end or not. */
	destroy(atomic_exchange(&later[random >> 2 & 7], handle));
	record_released(&release, &freeing, OUTCOME_DONE, 0);
}

static void one_buffer(uint64_t handle, unsigned int random)
{
	create.watched = *number_of(handle) = atomic_fetch_add(&last_number, 1) + 1;
	record_made(&create, handle, BYTES, 1, 0, 0);
	for (unsigned int i = 0; i < (random >> 8 & 3); i++)
		record_retained(&retain, handle);
	for (unsigned int i = 0; i < (random >> 8 & 3); i++)
		release_one(handle, (random >> 10 & 7) == 0);
	release_last(handle, random >> 13);
}

/* Nobody watches these. */
static void one_event(uint64_t handle)
{
	struct freeing freeing;

	record_made(&marker, handle, 0, 0, -1, 0);
	record_releasing(&release_event, handle, &freeing);
	pthread_mutex_lock(&pool_lock);
	pool[pooled++] = handle;
	pthread_mutex_unlock(&pool_lock);
	record_released(&release_event, &freeing, OUTCOME_DONE, 0);
}

static _Atomic int done;

/* Threads stay: see test_storm.c. */
static void *storm(void *seed)
{
	unsigned int random = (unsigned int)(uintptr_t)seed;

	for (int i = 0; i < ROUNDS; i++) {
		uint64_t handle = take_handle();

		random = random * 1103515245u + 12345u;
		if (handle && (random >> 5 & 7) == 0)
			one_event(handle);
		else if (handle)
			one_buffer(handle, random >> 6);
	}
	atomic_fetch_add(&done, 1);
	for (;;)
		pause();
	return NULL;
}

static int64_t released_left(struct recorder *recorder)
{
	int64_t sum = 0;

	for (int i = 0; i < THREAD_STATES; i++)
		sum += recorder->thread_states->state[i].deferred_bytes;
	return sum;
}

static void test_handles(void **state)
{
	struct ledger_walk walk = { 0, 0 };
	const struct ledger_history *history;
	const struct ledger_block *block;
	const struct ledger_site *site;
	struct recorder *recorder;
	struct ledger_view view;
	pthread_t thread;

	(void)state;
	for (int i = 0; i < HANDLES; i++)
		pool[pooled++] = FIRST_HANDLE + (uint64_t)i * BYTES;
	for (uintptr_t i = 1; i <= THREADS; i++) {
		assert_int_equal(pthread_create(&thread, NULL, storm, (void *)i), 0);
		pthread_detach(thread);
	}
	while (atomic_load(&done) < THREADS)
		usleep(1000);
	for (size_t i = 0; i < sizeof(later) / sizeof(later[0]); i++)
		destroy(atomic_exchange(&later[i], 0));
	assert_int_equal(pooled, HANDLES);

	recorder = recorder_now();
	assert_int_equal(ledger_view(recorder->writer.base, recorder->writer.mapped_bytes, &view),
			 LEDGER_OK);
	while ((block = ledger_next_block_slot(&view, &walk)))
		assert_int_equal(LEDGER_BLOCK_STATE(block->state), LEDGER_BLOCK_UNUSED);
	walk = (struct ledger_walk){ 0, 0 };
	while ((history = ledger_next_history(&view, &walk)))
		assert_int_equal(history->block, 0);
	walk = (struct ledger_walk){ 0, 0 };
	while ((site = ledger_next_site(&view, &walk)))
		assert_int_equal(site->unseen, 0);
	assert_int_equal(live_bytes_total(recorder), 0);
	assert_int_equal(released_left(recorder), 0);
	assert_int_equal(recorder->header->errors, 0);
	assert_int_equal(recorder->header->trouble[LEDGER_TROUBLE_STALE_BLOCKS], 0);
	assert_int_equal(recorder->header->trouble[LEDGER_TROUBLE_UNKNOWN_FREES], 0);
	assert_true(recorder->header->released_peak_bytes <= HANDLES * BYTES);
	assert_true(recorder->header->released_peak_bytes > 0);
	assert_true(recorder->writer.mapped_bytes <= 64 * LEDGER_CHUNK);
}

/* A driver that says nothing about the end, and hands the handle out again. */
static void test_silent_driver(void **state)
{
	struct recorder *recorder = recorder_now();
	struct freeing freeing;

	(void)state;
	for (int i = 0; i < 2; i++) {
		record_made(&create, 0x77000, BYTES, 1, 0, 0);
		record_releasing(&release, 0x77000, &freeing);
		record_released(&release, &freeing, OUTCOME_DONE, 0);
	}
	assert_int_equal(live_bytes_total(recorder), BYTES);
	assert_int_equal(released_left(recorder), BYTES);
	assert_int_equal(recorder->header->trouble[LEDGER_TROUBLE_STALE_BLOCKS], 0);
	record_destroyed(SPACE_CL_HANDLE, 0x77000, create.watched);
	record_destroyed(SPACE_CL_HANDLE, 0x77000, create.watched);
	assert_int_equal(live_bytes_total(recorder), 0);
	assert_int_equal(released_left(recorder), 0);
}

/* A driver that tells of the end when the handle is another buffer's already: NVIDIA's does. */
static void test_late_callback(void **state)
{
	struct recorder *recorder = recorder_now();
	const struct ledger_header *header = recorder->header;
	uint64_t unknown = header->trouble[LEDGER_TROUBLE_UNKNOWN_FREES];
	struct call second = create;
	struct freeing freeing;

	(void)state;
	second.watched = create.watched + 1;
	record_made(&create, 0x66000, BYTES, 1, 0, 0);
	record_releasing(&release, 0x66000, &freeing);
	record_released(&release, &freeing, OUTCOME_DONE, 0);
	record_made(&second, 0x66000, BYTES, 1, 0, 0);
	record_destroyed(SPACE_CL_HANDLE, 0x66000, create.watched);
	assert_int_equal(live_bytes_total(recorder), BYTES);
	assert_int_equal(released_left(recorder), 0);
	record_releasing(&release, 0x66000, &freeing);
	record_released(&release, &freeing, OUTCOME_DONE, 0);
	assert_int_equal(released_left(recorder), BYTES);
	record_destroyed(SPACE_CL_HANDLE, 0x66000, create.watched);
	assert_int_equal(released_left(recorder), BYTES);
	record_destroyed(SPACE_CL_HANDLE, 0x66000, second.watched);
	assert_int_equal(live_bytes_total(recorder), 0);
	assert_int_equal(released_left(recorder), 0);
	assert_int_equal(header->trouble[LEDGER_TROUBLE_UNKNOWN_FREES], unknown);
	assert_int_equal(header->trouble[LEDGER_TROUBLE_STALE_BLOCKS], 0);
}

/* The address of a dead buffer is now an event's that we did not see: no error. An event's
 * that we did see and that is released again: one, unless the driver says that it was fine. */
static void test_other_sorts(void **state)
{
	struct recorder *recorder = recorder_now();
	uint64_t errors = recorder->header->errors;
	struct freeing freeing;

	(void)state;
	record_made(&create, 0x88000, BYTES, 1, 0, 0);
	record_releasing(&release, 0x88000, &freeing);
	record_destroyed(SPACE_CL_HANDLE, 0x88000, create.watched);
	record_released(&release, &freeing, OUTCOME_DONE, 0);
	record_releasing(&release_event, 0x88000, &freeing);
	record_released(&release_event, &freeing, OUTCOME_DONE, 0);
	assert_int_equal(recorder->header->errors, errors);
	assert_int_equal(recorder->header->trouble[LEDGER_TROUBLE_UNKNOWN_FREES], 0);

	one_event(0x99000);
	record_releasing(&release_event, 0x99000, &freeing);
	assert_int_equal(recorder->header->errors, errors + 1);
	record_released(&release_event, &freeing, OUTCOME_DONE, 0);
	assert_int_equal(recorder->header->errors, errors);
	record_releasing(&release_event, 0x99000, &freeing);
	record_released(&release_event, &freeing, OUTCOME_REFUSED, -58);
	assert_int_equal(recorder->header->errors, errors + 1);

	record_releasing(&release, 0x88000, &freeing);
	record_released(&release, &freeing, OUTCOME_INVALID, -38);
	assert_int_equal(recorder->header->errors, errors + 2);
}

/* A driver gives the handle of a kernel to a new one before the release of the old one returns.
 * Arguments of the old one are not taken for those of the new one. */
static void test_kernel_handle(void **state)
{
	struct recorder *recorder = recorder_now();
	uint64_t args[LEDGER_KERNEL_ARGS_MAX];
	struct freeing freeing;

	(void)state;
	record_made(&create, 0xa1000, BYTES, 1, 0, 0);
	record_made(&create, 0xa2000, BYTES, 1, 0, 0);
	record_made(&create_kernel, 0xb0000, 0, 1, 0, 0);
	kernel_args_set(0xb0000, 0, 0xa1000);
	kernel_args_set(0xb0000, 1, 0xa2000);
	assert_true(kernel_args_lookup(recorder, 0xb0000, args));
	assert_int_equal(args[0], record_name_of(recorder, SPACE_CL_HANDLE, 0xa1000));
	record_releasing(&release_kernel, 0xb0000, &freeing);
	/* the release may not be the last */
	assert_true(kernel_args_lookup(recorder, 0xb0000, args));
	record_made(&create_kernel, 0xb0000, 0, 1, 0, 0);
	assert_false(kernel_args_lookup(recorder, 0xb0000, args));
	record_released(&release_kernel, &freeing, OUTCOME_DONE, 0);
	assert_false(kernel_args_lookup(recorder, 0xb0000, args));
	kernel_args_set(0xb0000, 1, 0xa1000);
	assert_true(kernel_args_lookup(recorder, 0xb0000, args));
	assert_int_equal(args[0], 0);
	assert_int_equal(args[1], record_name_of(recorder, SPACE_CL_HANDLE, 0xa1000));
}

static uint32_t mapped_mark(const struct ledger_block *block)
{
	return block->marked & LEDGER_BLOCK_MAPPED;
}

/* While the last release of a mapped buffer is in the driver, another thread unmaps it: the unmap
 * counts, one that the driver refuses does not, and the buffer ends with no mapping. */
static void test_unmap_in_release(void **state)
{
	struct recorder *recorder = recorder_now();
	struct unmapping unmapping;
	struct freeing freeing;

	(void)state;
	record_made(&create, 0xc1000, BYTES, 1, 0, 0);
	record_mapped(&map, 0xc1000, 0xd1000);
	record_mapped(&map, 0xc1000, 0xd2000);
	record_releasing(&release, 0xc1000, &freeing);
	assert_true(record_is_mapped(SPACE_CL_HANDLE, 0xc1000));
	record_unmapping(&unmap, 0xc1000, 0xd1000, &unmapping);
	assert_non_null(unmapping.recorder);
	assert_true(record_is_mapped(SPACE_CL_HANDLE, 0xc1000));
	record_unmapping(&unmap, 0xc1000, 0xd2000, &unmapping);
	assert_non_null(unmapping.recorder);
	assert_false(record_is_mapped(SPACE_CL_HANDLE, 0xc1000));
	assert_false(mapped_mark(freeing.block));
	record_unmapping_failed(&unmapping);
	assert_true(record_is_mapped(SPACE_CL_HANDLE, 0xc1000));
	record_unmapping(&unmap, 0xc1000, 0xd2000, &unmapping);
	record_released(&release, &freeing, OUTCOME_DONE, 0);
	assert_int_equal(LEDGER_BLOCK_STATE(freeing.block->state), LEDGER_BLOCK_RELEASED);
	assert_false(mapped_mark(freeing.block));
	assert_int_equal(released_left(recorder), BYTES);
	record_destroyed(SPACE_CL_HANDLE, 0xc1000, create.watched);
	assert_int_equal(released_left(recorder), 0);
	record_unmapping_failed(&unmapping); /* too late: the buffer is gone */
	assert_false(record_is_mapped(SPACE_CL_HANDLE, 0xc1000));
	assert_false(mapped_mark(freeing.block));
}

/* The driver gives the handle to a new buffer meanwhile: the mapping of the old one is not the
 * new one's. */
static void test_mapped_handle(void **state)
{
	struct unmapping unmapping;
	struct freeing freeing;

	(void)state;
	record_made(&create, 0xc2000, BYTES, 1, 0, 0);
	record_mapped(&map, 0xc2000, 0xd3000);
	record_releasing(&release, 0xc2000, &freeing);
	record_made(&create, 0xc2000, BYTES, 1, 0, 0);
	assert_false(record_is_mapped(SPACE_CL_HANDLE, 0xc2000));
	record_unmapping(&unmap, 0xc2000, 0xd3000, &unmapping);
	assert_null(unmapping.recorder);
	freeing.gone = true;
	record_released(&release, &freeing, OUTCOME_DONE, 0);
	assert_false(record_is_mapped(SPACE_CL_HANDLE, 0xc2000));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_handles),
		cmocka_unit_test(test_silent_driver),
		cmocka_unit_test(test_late_callback),
		cmocka_unit_test(test_other_sorts),
		cmocka_unit_test(test_kernel_handle),
		cmocka_unit_test(test_unmap_in_release),
		cmocka_unit_test(test_mapped_handle),
	};

	setenv("GPULEAK_STACK_DEPTH", "16", 1);
	process_start();
	unwinder_load(); /* see test_storm.c */
	return cmocka_run_group_tests(tests, NULL, remove_ledger);
}
