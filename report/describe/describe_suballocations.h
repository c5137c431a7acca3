/* SPDX-License-Identifier: MIT
 *
 * Words for suballocations: what users call them ("tensor"), and whether a call site keeps them.
 * All formats use these words. The functions print valid UTF-8 without control characters.
 */
#ifndef GPULEAK_REPORT_DESCRIBE_SUBALLOCATIONS_H
#define GPULEAK_REPORT_DESCRIBE_SUBALLOCATIONS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct report_leak;
struct report_process;
struct report_suballocations;

/* The part of a block in a framework's cache that no suballocation uses. */
#define SUBALLOCATIONS_UNUSED "cached, unused"

/* Returns what the users of the pool CACHE call its suballocations: "tensor" for PyTorch's. Returns
 * "block" if CACHE is NULL, because the memory is in no pool, and if the pool is unknown. */
const char *suballocation_word(const char *cache);

/* Returns what users call one block or suballocation of LEAK: "tensor" or "block". */
const char *describe_unit(const struct report_leak *leak);

/* Returns "accumulating", "filled" or "constant"; NULL if it is not known. */
const char *suballocation_trend_word(const struct report_suballocations *entry);

/* The live suballocations of one pool. */
struct suballocation_pool {
	const char *cache; /* NULL: unknown */
	uint64_t bytes, blocks;
	uint64_t accumulating; /* of `blocks`: those of call sites that accumulate */
};
#define SUBALLOCATION_POOLS_MAX 16

/* Sums up the live suballocations of PROCESS by pool. The last element sums up all pools beyond the
 * limit. Returns the number of pools. */
size_t suballocation_pools(const struct report_process *process,
			   struct suballocation_pool ret[SUBALLOCATION_POOLS_MAX]);
/* Returns the index in POOLS of the pool that ENTRY belongs to. */
size_t suballocation_pool_of(const struct suballocation_pool *pools, size_t count,
			     const struct report_suballocations *entry);

/* Prints "1,234 bytes (1.2 KiB) in 3 tensors". */
void describe_suballocations(FILE *out, const char *cache, uint64_t bytes, uint64_t blocks);

/* Prints whether the program kept the suballocations of ENTRY: "400 of 400 kept, 2 per second until
 * the loop ended", "filled up and stays", "constant". Prints nothing if it is not known. */
void describe_trend(FILE *out, const struct report_process *process,
		    const struct report_suballocations *entry);

/* Prints BEFORE and "12,288 bytes (12.0 KiB) in tensors, 2,084,864 bytes (1.9 MiB) cached, unused":
 * how the bytes of BLOCKS, which are in a cache, divide. Prints nothing if no suballocation is in
 * them. */
void describe_division(FILE *out, const struct report_leak *blocks, const char *before);

/* Prints "PyTorch caching allocator, device 0" for the pool of LIVE, or "device memory,
 * cuMemAlloc_v2, device 0" for a block that is in no pool. DEVICE -1: prints no device. */
void describe_pool(FILE *out, const struct report_leak *live, int device);

/* Prints BEFORE, one sentence about the suballocations that lie outside of all recorded blocks, at
 * least in part, and a newline. Prints nothing if PROCESS has no such suballocation. */
void describe_outside(FILE *out, const char *before, const struct report_process *process);

#endif
