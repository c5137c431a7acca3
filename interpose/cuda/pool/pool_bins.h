/* SPDX-License-Identifier: MIT
 *
 * The bins of the pool: which request sizes share a bin, and which larger blocks may serve them.
 * Inline, since each allocation computes its bin.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The sizes of bins: each multiple of the granule up to 32 granules, then 32 steps for each
 * doubling. So a block of a bin is at most 1/32 larger than a request that the bin serves. */
#define POOL_GRANULE 512u
#define POOL_LARGE_GRANULE (2u << 20) /* the driver's granule from POOL_LARGE_FROM on */
#define POOL_LARGE_FROM (1u << 20)
#define POOL_BINS (32u + 26u * 32u)
#define POOL_BIN_WORDS ((POOL_BINS + 63) / 64)
#define POOL_BYTES_MAX (1ull << 40)
#define POOL_BELOW_LARGE 223u /* the bin of 1 MiB */

/* True if requests from 1 MiB on are parts of slabs too, and so need not be whole large granules.
 * Set once for the process, before the first request. */
extern _Atomic bool pool_fine_bins;

/* Returns BYTES, rounded up to whole large granules. */
static inline uint64_t pool_round_large(uint64_t bytes)
{
	return (bytes + POOL_LARGE_GRANULE - 1) & ~(uint64_t)(POOL_LARGE_GRANULE - 1);
}

/* Returns the bin that serves UNITS granules, which are at least 1. */
static inline unsigned int pool_bin_of_units(uint64_t units)
{
	unsigned int shift;

	if (units <= 32)
		return (unsigned int)units - 1;
	/* Choose SHIFT so that 32 << SHIFT < UNITS <= 64 << SHIFT. */
	shift = 63 - (unsigned int)__builtin_clzll(units - 1) - 5;
	return 32 * (shift + 1) + (unsigned int)((units - 1) >> shift) - 32;
}

/* Returns the bin that serves a request for BYTES, which are 1 to POOL_BYTES_MAX. */
static inline unsigned int pool_bin_of(uint64_t bytes)
{
	if (bytes >= POOL_LARGE_FROM &&
	    !atomic_load_explicit(&pool_fine_bins, memory_order_relaxed))
		bytes = pool_round_large(bytes);
	return pool_bin_of_units((bytes + POOL_GRANULE - 1) / POOL_GRANULE);
}

/* Returns the granules of the largest request that BIN serves. */
static inline uint64_t pool_units_of_bin(unsigned int bin)
{
	if (bin < 32)
		return bin + 1;
	return ((uint64_t)(bin % 32) + 33) << (bin / 32 - 1);
}

/* Returns the bytes of a part that is carved for BIN. */
static inline uint64_t pool_bytes_of_bin(unsigned int bin)
{
	return pool_units_of_bin(bin) * POOL_GRANULE;
}

/* Returns the bin that has the size of the native block which the pool allocates to serve BIN. From
 * 1 MiB on the driver allocates whole large granules, so the native block fills them. With fine
 * bins this includes POOL_BELOW_LARGE, because it also serves requests for exactly 1 MiB. */
static inline unsigned int pool_native_bin(unsigned int bin)
{
	if (bin < POOL_BELOW_LARGE + !atomic_load_explicit(&pool_fine_bins, memory_order_relaxed))
		return bin;
	return pool_bin_of_units(pool_round_large(pool_bytes_of_bin(bin)) / POOL_GRANULE);
}

/* Returns the last bin whose blocks may serve a request of BIN. Such a block is at most an eighth
 * larger than a block of BIN, or at most as large as the block that the driver would allocate for
 * the request. */
static inline unsigned int pool_last_bin_for(unsigned int bin)
{
	uint64_t units = pool_units_of_bin(bin);
	unsigned int native = pool_native_bin(bin);

	bin = pool_bin_of_units(units + units / 8 + 1) - 1;
	if (bin >= POOL_BINS)
		bin = POOL_BINS - 1;
	return native > bin ? native : bin;
}
