/* SPDX-License-Identifier: MIT
 *
 * Kept blocks that threads hand to each other, free for each other and take from each other,
 * against the pool's own keeping (interpose_recording, ledger_dep, cmocka, threads), with blocks
 * that no driver made: each is one thread's or kept once, and none is lost. Runs under TSan
 * too, with the plain lock: TSan sees no barrier of the kernel's.
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

#include "own_ledger.h"
#include "interpose/cuda/pool/pool_internal.h"
#include "interpose/cuda/pool/pool_cache.h"
#include "interpose/process/start.h"
#include "interpose/stack/unwinder.h"

enum { THREADS = 6, BLOCKS = 256, SIZES = 3, PLACES = 32, ROUNDS = 200000 };
#define MIB (1ull << 20)

static struct pool *pool;
static struct pool_space *space;
static _Atomic int taken[BLOCKS]; /* 1 while a thread has it */
static _Atomic(struct pool_block *) on_its_way[PLACES];
static _Atomic long lacked, twice;
static _Atomic int ended;

static unsigned int number_of(const struct pool_block *block)
{
	return (unsigned int)(block->address / 4096) - 1;
}

static unsigned int bin_of(unsigned int number)
{
	return pool_bin_of((number % SIZES + 1) * 4 * MIB);
}

static void make_pool(void)
{
	struct recorder *recorder = recorder_enter();
	struct pool_context *context;

	pool = pool_make(recorder);
	assert_non_null(pool);
	pool->single_thread = false;
	context = &pool->context[0];
	context->total = 16384 * MIB;
	context->flush = context->total;
	space = &context->space[POOL_DEVICE];
	space->context = context;
	space->record = &space->local_record;
	for (unsigned int i = 0; i < BLOCKS; i++) {
		struct pool_block *block = pool_block_new(pool);

		assert_non_null(block);
		block->address = (i + 1) * 4096ull;
		block->bin = (uint16_t)bin_of(i);
		block->capacity = pool_bytes_of_bin(block->bin);
		block->space = space;
		atomic_store(&block->state, POOL_CACHED);
		pool_cache_enter(pool_cache_here(pool, space));
		pool_cache_insert(pool_cache_here(pool, space), block);
		pool_cache_leave(pool_cache_here(pool, space));
	}
	recorder_leave();
}

/* As block_alloc() and block_alloc_slow() of pool_requests.c. */
static struct pool_block *take(unsigned int bin)
{
	struct pool_cache *cache = pool_cache_here(pool, space);
	struct pool_block *block;
	uint64_t pending;

	pool_cache_enter(cache);
	block = pool_cache_remove_own(space->context, cache, bin, &pending);
	pool_cache_leave(cache);
	if (!block)
		block = pool_cache_remove_returned(space, cache, bin, &pending);
	if (!block)
		block = pool_cache_remove_older(space, cache, bin);
	if (!block)
		block = pool_cache_remove_any(pool, space, cache, bin, pool_bytes_of_bin(bin));
	if (!block)
		return NULL;
	twice += atomic_exchange(&taken[number_of(block)], 1);
	pool_cache_enter(cache);
	block->owner = cache;
	pool_cache_leave(cache);
	return block;
}

static void give(struct pool_block *block)
{
	struct pool_cache *cache = pool_cache_here(pool, space);

	twice += !atomic_exchange(&taken[number_of(block)], 0);
	pool_cache_enter(cache);
	pool_cache_insert(cache, block);
	pool_cache_leave(cache);
}

static void *trade(void *seed)
{
	unsigned int random = (unsigned int)(uintptr_t)seed;

	for (int i = 0; i < ROUNDS; i++) {
		struct pool_block *block;

		recorder_enter();
		random = random * 1103515245u + 12345u;
		if (random >> 8 & 1 || random % 5 == 0) /* some take more, some give more */
			block = take(bin_of(random >> 20));
		else
			block = NULL;
		lacked += !block;
		block = atomic_exchange(&on_its_way[random >> 12 & (PLACES - 1)], block);
		if (block)
			give(block);
		if (i % 512 == 0)
			pool_cache_collect(pool, space);
		recorder_leave();
	}
	atomic_fetch_add(&ended, 1);
	for (;;)
		pause(); /* see test_storm.c */
	return NULL;
}

static void test_trade(void **state)
{
	struct pool_block *block;
	pthread_t thread;
	int found = 0;

	(void)state;
	make_pool();
	for (uintptr_t i = 1; i <= THREADS; i++) {
		assert_int_equal(pthread_create(&thread, NULL, trade, (void *)(i * 7919)), 0);
		pthread_detach(thread);
	}
	while (atomic_load(&ended) < THREADS)
		usleep(1000);
	assert_int_equal(twice, 0);
	assert_true(lacked < THREADS * ROUNDS);

	recorder_enter();
	for (int i = 0; i < PLACES; i++) {
		block = atomic_load(&on_its_way[i]);
		found += block != NULL;
		if (block)
			assert_int_equal(atomic_exchange(&taken[number_of(block)], 2), 1);
	}
	pool_cache_collect(pool, space);
	while ((block = pool_cache_remove_oldest(space, false, UINT32_MAX)) != NULL) {
		assert_int_equal(atomic_exchange(&taken[number_of(block)], 2), 0);
		found++;
	}
	recorder_leave();
	assert_int_equal(found, BLOCKS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_trade),
	};

	process_start();
	unwinder_load(); /* see test_storm.c */
	return cmocka_run_group_tests(tests, NULL, remove_ledger);
}
