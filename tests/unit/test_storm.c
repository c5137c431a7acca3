/* SPDX-License-Identifier: MIT
 *
 * Many threads on few addresses, against the recording half itself (interpose_recording
 * of interpose/meson.build, ledger_dep, cmocka, threads): addresses are handed out again
 * the moment their free is under way, and go from thread to thread. Not one block, byte
 * or error more or less. Runs under TSan too.
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
#include "own_ledger.h"
#include "ledger/reader.h"
#include "interpose/process/start.h"
#include "interpose/recorder/recorder.h"
#include "interpose/recorder/live_bytes.h"
#include "interpose/stack/unwinder.h"

#define THREADS 8
#define ADDRESSES 64
#define ROUNDS 20000
#define BYTES 512

/* A driver: a stack of free addresses, the last one freed is handed out first. */
static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t pool[ADDRESSES];
static int pooled;

static uint64_t driver_alloc(void)
{
	uint64_t address = 0;

	pthread_mutex_lock(&pool_lock);
	if (pooled)
		address = pool[--pooled];
	pthread_mutex_unlock(&pool_lock);
	return address;
}

static void driver_free(uint64_t address)
{
	pthread_mutex_lock(&pool_lock);
	pool[pooled++] = address;
	pthread_mutex_unlock(&pool_lock);
}

static _Atomic uint64_t handed_over[16]; /* blocks on their way to another thread */
static _Atomic uint64_t made, gone;

static void make(uint64_t *ret_address)
{
	struct call call = { &hooks[HOOK_cuMemAlloc_v2], NULL, SPACE_MEMORY };

	*ret_address = driver_alloc();
	if (!*ret_address)
		return;
	record_made(&call, *ret_address, BYTES, 1, 0, 0);
	atomic_fetch_add(&made, 1);
}

static void end(uint64_t address, int refuse)
{
	struct call call = { &hooks[HOOK_cuMemFree_v2], NULL, SPACE_MEMORY };
	struct freeing freeing;

	record_freeing(&call, address, &freeing);
	if (refuse) {
		record_freed(&call, &freeing, OUTCOME_REFUSED, 999);
		record_freeing(&call, address, &freeing);
	}
	driver_free(address);
	record_freed(&call, &freeing, OUTCOME_DONE, 0);
	atomic_fetch_add(&gone, 1);
}

/* Threads stay until the process ends: libunwind's thread destructor runs after TSan's
 * own, which that does not survive. */
static _Atomic int done;

static void *stay(void)
{
	atomic_fetch_add(&done, 1);
	for (;;)
		pause();
	return NULL;
}

static void run_until_done(int threads, void *(*work)(void *), const uintptr_t *arguments)
{
	pthread_t thread;

	atomic_store(&done, 0);
	for (int i = 0; i < threads; i++) {
		assert_int_equal(pthread_create(&thread, NULL, work, (void *)arguments[i]), 0);
		pthread_detach(thread);
	}
	while (atomic_load(&done) < threads)
		usleep(1000);
}

static void *storm(void *seed)
{
	unsigned int random = (unsigned int)(uintptr_t)seed;

	for (int i = 0; i < ROUNDS; i++) {
		uint64_t address;

		make(&address);
		random = random * 1103515245u + 12345u;
		address = atomic_exchange(&handed_over[random >> 16 & 15], address);
		if (address)
			end(address, (random >> 24 & 31) == 0);
	}
	return stay();
}

static uint64_t live_in_ledger(const struct ledger_view *view, uint64_t *ret_allocs)
{
	struct ledger_walk walk = { 0, 0 };
	const struct ledger_block *block;
	const struct ledger_site *site;
	uint64_t live = 0;

	while ((block = ledger_next_block_slot(view, &walk)))
		live += LEDGER_BLOCK_STATE(block->state) != LEDGER_BLOCK_UNUSED;
	walk = (struct ledger_walk){ 0, 0 };
	*ret_allocs = 0;
	while ((site = ledger_next_site(view, &walk)))
		*ret_allocs += site->allocs;
	return live;
}

static void test_storm(void **state)
{
	static const uintptr_t seeds[THREADS] = { 1, 2, 3, 4, 5, 6, 7, 8 };
	struct recorder *recorder;
	struct ledger_view view;
	uint64_t allocs, live;

	(void)state;
	for (int i = 0; i < ADDRESSES; i++)
		pool[pooled++] = 0x700000000000u + (uint64_t)i * 512;
	run_until_done(THREADS, storm, seeds);

	recorder = recorder_now();
	assert_non_null(recorder);
	assert_int_equal(ledger_view(recorder->writer.base, recorder->writer.mapped_bytes, &view),
			 LEDGER_OK);
	live = live_in_ledger(&view, &allocs);
	assert_int_equal(live, atomic_load(&made) - atomic_load(&gone));
	assert_int_equal(allocs, atomic_load(&made));
	assert_int_equal(live_bytes_total(recorder), live * BYTES);
	assert_int_equal(recorder->header->errors, 0);
	assert_int_equal(recorder->header->trouble[LEDGER_TROUBLE_STALE_BLOCKS], 0);
	assert_int_equal(recorder->header->trouble[LEDGER_TROUBLE_UNKNOWN_FREES], 0);
	assert_true(recorder->header->peak_bytes <= ADDRESSES * BYTES);
	assert_true(recorder->header->peak_bytes >= live * BYTES);

	/* What is left can be ended, and then nothing is live. */
	for (size_t i = 0; i < sizeof(handed_over) / sizeof(handed_over[0]); i++)
		if (atomic_load(&handed_over[i]))
			end(atomic_load(&handed_over[i]), 0);
	assert_int_equal(live_in_ledger(&view, &allocs), 0);
	assert_int_equal(live_bytes_total(recorder), 0);
	/* The slots were used again and again: the file did not grow with the calls. */
	assert_true(recorder->writer.mapped_bytes <= 64 * LEDGER_CHUNK);
}

/* p is freed, its address becomes q, p is freed again, then q's owner frees q. */
static void test_stolen(void **state)
{
	struct call alloc = { &hooks[HOOK_cuMemAlloc_v2], NULL, SPACE_MEMORY };
	struct call free_ = { &hooks[HOOK_cuMemFree_v2], NULL, SPACE_MEMORY };
	struct recorder *recorder;
	struct freeing freeing;
	struct ledger_view view;
	struct ledger_walk walk = { 0, 0 };
	const struct ledger_error *error;

	(void)state;
	for (int i = 0; i < 2; i++) {
		record_made(&alloc, 0x1000, 100 + (uint64_t)i, 1, 0, 0);
		record_freeing(&free_, 0x1000, &freeing);
		record_freed(&free_, &freeing, OUTCOME_DONE, 0);
	}
	record_freeing(&free_, 0x1000, &freeing);
	assert_null(freeing.block);
	record_freed(&free_, &freeing, OUTCOME_INVALID, 1);

	recorder = recorder_now();
	assert_int_equal(recorder->header->errors, 1);
	ledger_view(recorder->writer.base, recorder->writer.mapped_bytes, &view);
	error = ledger_next_error(&view, &walk);
	assert_non_null(error);
	assert_int_equal(error->block_bytes, 101);
	assert_int_equal(error->earlier_bytes, 100);
	assert_int_not_equal(error->earlier_freed.api, 0);
	assert_int_equal(error->result, 1);
}

/* A free that the driver refused leaves everything as it was, the past too. */
static void test_put_back(void **state)
{
	struct call alloc = { &hooks[HOOK_cuMemAlloc_v2], NULL, SPACE_MEMORY };
	struct call free_ = { &hooks[HOOK_cuMemFree_v2], NULL, SPACE_MEMORY };
	struct recorder *recorder = recorder_now();
	uint64_t errors = recorder->header->errors;
	int64_t live = live_bytes_total(recorder);
	struct freeing freeing;

	(void)state;
	record_made(&alloc, 0x2000, 50, 1, 0, 0);
	record_freeing(&free_, 0x2000, &freeing);
	record_freed(&free_, &freeing, OUTCOME_REFUSED, 999);
	assert_int_equal(live_bytes_total(recorder), live + 50);
	record_freeing(&free_, 0x2000, &freeing);
	assert_non_null(freeing.block);
	record_freed(&free_, &freeing, OUTCOME_DONE, 0);
	assert_int_equal(live_bytes_total(recorder), live);
	assert_int_equal(recorder->header->errors, errors);
}

static void *one_block(void *bytes)
{
	struct call alloc = { &hooks[HOOK_cuMemAlloc_v2], NULL, SPACE_MEMORY };
	struct call free_ = { &hooks[HOOK_cuMemFree_v2], NULL, SPACE_MEMORY };
	struct freeing freeing;

	record_made(&alloc, 0x3000, (uint64_t)(uintptr_t)bytes, 1, 0, 0);
	record_freeing(&free_, 0x3000, &freeing);
	record_freed(&free_, &freeing, OUTCOME_DONE, 0);
	return stay();
}

/* Threads one after the other: the peak is that of the largest, to the byte, and not the
 * sum of what each of them had at its best. */
static void test_peak_in_turn(void **state)
{
	static const uintptr_t bytes[] = { 1000000, 3000000, 2000000, 5000001, 4000000 };
	struct recorder *recorder = recorder_now();
	uint64_t live = (uint64_t)live_bytes_total(recorder);

	(void)state;
	for (size_t i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++)
		run_until_done(1, one_block, &bytes[i]);
	assert_int_equal(recorder->header->peak_bytes, live + 5000001);
}

/* The ends of a process are not linked in: nobody else takes the file away. */
int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_storm),
		cmocka_unit_test(test_stolen),
		cmocka_unit_test(test_put_back),
		cmocka_unit_test(test_peak_in_turn),
	};

	setenv("GPULEAK_STACK_DEPTH", "16", 1);
	process_start();
	/* The loader orders two threads that open one library by a lock that TSan can't see:
	 * what the loader wrote for the first is then a race to it when the second reads. */
	unwinder_load();
	return cmocka_run_group_tests(tests, NULL, remove_ledger);
}
