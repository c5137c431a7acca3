/* SPDX-License-Identifier: MIT
 *
 * Which sizes share a bin of the pool, and which larger blocks may serve them: both ways, with
 * whole large granules from 1 MiB on as the driver gives them, and with fine steps for parts.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "interpose/cuda/pool/pool_bins.h"

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)

_Atomic bool pool_fine_bins;

/* What a request for BYTES must have at least, and what it may not have more than. */
static void check_size(uint64_t bytes)
{
	unsigned int bin = pool_bin_of(bytes);
	uint64_t least = bytes >= MIB && !pool_fine_bins ? pool_round_large(bytes) : bytes;
	uint64_t has = pool_bytes_of_bin(bin);

	assert_true(bin < POOL_BINS);
	assert_true(has >= least);
	assert_true(has < least + least / 32 + POOL_GRANULE);
	assert_true(pool_bytes_of_bin(pool_native_bin(bin)) >= has);
	if (!pool_fine_bins)
		assert_int_equal(pool_native_bin(bin), bin);
	if (bytes >= MIB)
		assert_int_equal(pool_bytes_of_bin(pool_native_bin(bin)) % (2 * MIB), 0);
}

/* Every bin's first and last size; in between all are the bin's. */
static void every_size(void)
{
	uint64_t below = 0;
	unsigned int last = 0;

	for (unsigned int bin = 0; bin < POOL_BINS; bin++) {
		uint64_t bytes = pool_bytes_of_bin(bin);

		assert_true(bytes > below);
		assert_int_equal(bytes % POOL_GRANULE, 0);
		if (pool_fine_bins || bytes < MIB) {
			assert_int_equal(pool_bin_of(bytes), bin);
			assert_int_equal(pool_bin_of(below + 1), bin);
		}
		check_size(below + 1);
		check_size(bytes - 1);
		check_size(bytes);
		assert_true(pool_bin_of(bytes) >= last);
		last = pool_bin_of(bytes);
		below = bytes;
	}
	assert_int_equal(below, POOL_BYTES_MAX);
}

/* An eighth more, or what the driver gives for it; no less than what could be. */
static void every_last(void)
{
	unsigned int before = 0;

	for (unsigned int i = 0; i < POOL_BINS; i++) {
		unsigned int bin = pool_bin_of(pool_bytes_of_bin(i)), last;
		uint64_t bytes = pool_bytes_of_bin(bin), most = bytes + bytes / 8;

		last = pool_last_bin_for(bin);
		if (pool_bytes_of_bin(pool_native_bin(bin)) > most)
			most = pool_bytes_of_bin(pool_native_bin(bin));
		assert_true(last >= bin && last >= before && last < POOL_BINS);
		assert_true(pool_bytes_of_bin(last) <= most);
		if (last + 1 < POOL_BINS)
			assert_true(pool_bytes_of_bin(last + 1) > most);
		before = last;
	}
}

static void test_sizes(void **state)
{
	(void)state;
	for (int fine = 0; fine <= 1; fine++) {
		pool_fine_bins = fine;
		every_size();
		every_last();
	}
}

/* The driver gives 2 MiB from 1 MiB on: all that share them share a bin. */
static void test_whole(void **state)
{
	(void)state;
	pool_fine_bins = false;
	assert_int_equal(pool_bin_of(MIB - 1), pool_bin_of(1009 * KIB));
	assert_int_equal(pool_bytes_of_bin(pool_bin_of(MIB - 1)), MIB);
	assert_int_equal(pool_bin_of(MIB), pool_bin_of(2 * MIB));
	assert_int_equal(pool_bin_of(MIB + 1), pool_bin_of(2 * MIB));
	assert_int_equal(pool_bytes_of_bin(pool_bin_of(MIB)), 2 * MIB);
	assert_int_equal(pool_bytes_of_bin(pool_bin_of(2 * MIB + 1)), 4 * MIB);
	/* A block of 1 MiB less a byte, as it is had of the driver, is none of 1 MiB. */
	assert_true(pool_last_bin_for(pool_bin_of(MIB - 1)) < pool_bin_of(MIB));
}

/* Parts are as large as is asked; a native block of 2 MiB still serves what it was made for. */
static void test_fine(void **state)
{
	unsigned int bin;

	(void)state;
	pool_fine_bins = true;
	assert_int_equal(pool_bytes_of_bin(pool_bin_of(MIB)), MIB);
	assert_int_equal(pool_bytes_of_bin(pool_bin_of(MIB + 1)), MIB + 32 * KIB);
	assert_int_equal(pool_bytes_of_bin(pool_bin_of(3 * MIB)), 3 * MIB);
	for (uint64_t bytes = MIB; bytes <= 64 * MIB; bytes += 100 * KIB) {
		bin = pool_bin_of(bytes);
		assert_int_equal(pool_bytes_of_bin(pool_native_bin(bin)),
				 pool_round_large(pool_bytes_of_bin(bin)));
		assert_true(pool_last_bin_for(bin) >= pool_native_bin(bin));
	}
	/* What of the driver's is a byte short serves no request for all of it. */
	assert_int_equal(pool_native_bin(pool_bin_of(MIB - 1)), pool_bin_of(2 * MIB));
	assert_int_equal(pool_native_bin(POOL_BELOW_LARGE - 1), POOL_BELOW_LARGE - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_whole),
		cmocka_unit_test(test_fine),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
