/* SPDX-License-Identifier: MIT
 *
 * Blocks of the CUDA pool that go to the driver and come back, with a driver of the test's own:
 * during the driver's free no lookup finds the address, because the driver may give it to another
 * thread at once. A free that fails leaves the block as it was.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "own_ledger.h"
#include "interpose/cuda/pool/pool_internal.h"
#include "interpose/process/start.h"
#include "interpose/stack/unwinder.h"

#define ADDRESS 0x700000000ull
#define BYTES 5000000u

static struct pool *pool;
static struct pool_space *space;
static CUresult answer;
static int frees;

static CUresult allocate(CUdeviceptr *address, size_t bytes)
{
	assert_true(bytes >= BYTES);
	*address = ADDRESS;
	return CUDA_SUCCESS;
}

static CUresult release(CUdeviceptr address)
{
	assert_int_equal(address, ADDRESS);
	assert_null(pool_map_lookup(pool, ADDRESS));
	frees++;
	return answer;
}

static const struct pool_native_free by_release = { .real = (void *)release };

static int make_pool(void **state)
{
	struct recorder *recorder = recorder_enter();

	(void)state;
	assert_non_null(recorder);
	pool = pool_make(recorder);
	recorder_leave();
	assert_non_null(pool);
	space = &pool->context[0].space[POOL_DEVICE];
	space->context = &pool->context[0];
	space->record = &space->local_record;
	return 0;
}

/* Returns the block of a new allocation, which is live. */
static struct pool_block *new_block(void)
{
	uint64_t address = 0;
	struct pool_block *block;

	assert_int_equal(pool_native_alloc(pool, space, (void *)allocate, pool_bin_of(BYTES),
					   BYTES, &address), CUDA_SUCCESS);
	assert_int_equal(address, ADDRESS);
	block = pool_map_lookup(pool, ADDRESS);
	assert_non_null(block);
	assert_int_equal(block->bytes, BYTES);
	assert_int_equal(atomic_load(&block->state), POOL_LIVE);
	return block;
}

/* The driver gives the same address for each allocation. */
static void returned(void **state)
{
	(void)state;
	frees = 0;
	answer = CUDA_SUCCESS;
	for (int i = 1; i <= 3; i++) {
		struct pool_block *block = new_block();

		assert_int_equal(atomic_load(&space->reserved), block->capacity);
		recorder_enter();
		assert_int_equal(pool_native_return(pool, block, &by_release), CUDA_SUCCESS);
		recorder_leave();
		assert_int_equal(frees, i);
		assert_null(pool_map_lookup(pool, ADDRESS));
		assert_int_equal(atomic_load(&space->reserved), 0);
	}
}

static void refused(void **state)
{
	struct pool_block *block = new_block();

	(void)state;
	answer = CUDA_ERROR_INVALID_VALUE;
	recorder_enter();
	assert_int_equal(pool_native_return(pool, block, &by_release), CUDA_ERROR_INVALID_VALUE);
	assert_ptr_equal(pool_map_lookup(pool, ADDRESS), block);
	assert_int_equal(atomic_load(&block->state), POOL_LIVE);
	assert_int_equal(atomic_load(&space->reserved), block->capacity);
	answer = CUDA_SUCCESS;
	assert_int_equal(pool_native_return(pool, block, &by_release), CUDA_SUCCESS);
	assert_null(pool_map_lookup(pool, ADDRESS));
	recorder_leave();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(returned),
		cmocka_unit_test(refused),
	};

	process_start();
	unwinder_load(); /* see test_storm.c */
	return cmocka_run_group_tests(tests, make_pool, remove_ledger);
}
