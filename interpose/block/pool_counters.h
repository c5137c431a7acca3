/* SPDX-License-Identifier: MIT
 *
 * The counters of pools and limits: one record in the ledger. It exists from the first GPU call on
 * if an option enables a pool, a limit or failures. Counters are increased in place, atomically.
 * Also the flags that every pool reads.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "ledger/format.h"
#include "ledger/lock.h"
#include "ledger/shared.h"

struct recorder;

/* True if GPULEAK_POOL is strict or fast. A wrapper checks this first. */
extern _Atomic bool pool_on;
/* GPULEAK_POOL_SIGNAL: a signal requests a trim (service_thread.c). The next GPU memory call of any
 * thread trims the pool. If no such call follows, the service thread does so after a while. */
extern _Atomic bool pool_wants_trim;

/* Returns true once after the signal came: then the caller must trim. Costs one load otherwise. */
static inline bool pool_trim_due(void)
{
	return __builtin_expect(atomic_load_explicit(&pool_wants_trim, memory_order_relaxed), 0) &&
	       atomic_exchange_explicit(&pool_wants_trim, false, memory_order_relaxed);
}

/* Part of the recorder. */
struct pools_record {
	struct ledger_pools *pools; /* NULL: none of these options is set, or the ledger is full */
	struct lock lock;           /* protects the assignment of rows */
};

/* Creates the record, if an option needs it. Called once, before other threads can see the
 * recorder. */
void pools_record_make(struct recorder *recorder);

/* Returns the current record, or NULL if there is no record or no recorder. Takes no lock. The
 * address is valid until the process forks. */
struct ledger_pools *pools_record(void);

/* Returns the record's row of API ("CUDA", "OpenCL"), KIND and DEVICE; adds it if needed. Returns
 * NULL if there is no record, no free row or no room for the texts. Takes a lock, so callers should
 * cache the result. */
struct ledger_pool *pools_record_row(const char *api, const char *kind, int device);

/* Replaced by a test that changes PEAK at this point. */
#ifndef PEAK_SEEN
#define PEAK_SEEN(peak)
#endif

/* Sets *PEAK to VALUE if VALUE is larger. If several threads do so at once, the largest VALUE
 * remains. */
static inline void pools_raise(uint64_t *peak, uint64_t value)
{
	uint64_t seen = shared_load(*peak);

	PEAK_SEEN(peak);
	while (value > seen &&
	       !atomic_compare_exchange_weak_explicit(&SHARED(*peak), &seen, value,
						      memory_order_relaxed, memory_order_relaxed))
		;
}

/* Adds BY to COUNTER and returns its old value. */
#define pools_count(counter, by)                                                                  \
	shared_add(*(counter), (uint64_t)(by))

/* Counts BLOCKS of BYTES in all that a trim returned to the driver. */
static inline void pools_count_trimmed(struct ledger_pool *record, uint64_t blocks, uint64_t bytes)
{
	pools_count(&record->trimmed, blocks);
	pools_count(&record->trimmed_bytes, bytes);
}

/* Counts the reason WHY a block was left to the driver or waits longer than usual. */
static inline void pools_count_reason(struct ledger_pool *record, enum ledger_pool_reason why)
{
	pools_count(&record->reasons[why], 1);
}

/* Bytes that a pool may always cache. */
#define POOLS_FLOOR ((uint64_t)64 << 20)

/* Returns the bytes that a pool may cache if PEAK bytes were in use at one time. */
static inline uint64_t pools_bound(uint64_t peak)
{
	return peak / 10 > POOLS_FLOOR ? peak / 10 : POOLS_FLOOR;
}
