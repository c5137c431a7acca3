/* SPDX-License-Identifier: MIT
 *
 * Where the pools' and the limits' counters are: one record of the ledger, which is there
 * from the first GPU call on if an option asks for a pool, a limit or failures. Counters are
 * added to in place, atomically.
 */
#ifndef GPULEAK_POOLS_RECORD_H
#define GPULEAK_POOLS_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "ledger/format.h"
#include "ledger/lock.h"

struct recorder;

/* In the recorder. */
struct pools_record {
	struct ledger_pools *pools; /* NULL: none of those options is set, or no room */
	struct lock lock;           /* of who takes a row */
};

/* Once, before the recorder is anybody's. */
void pools_record_make(struct recorder *recorder);

/* The present record, or NULL: see above, or there is no recorder (yet). Lock-free; stays
 * where it is until the process forks. */
struct ledger_pools *pools_record(void);

/* The row of API ("CUDA", "OpenCL"), KIND and DEVICE in it, made if need be; NULL without a
 * record, a free row or room for the texts. Takes a lock: keep what it answers. */
struct ledger_pool *pools_record_row(const char *api, const char *kind, int device);

/* For a test that comes in between. */
#ifndef PEAK_SEEN
#define PEAK_SEEN(peak)
#endif

/* Several threads may raise PEAK at one moment: the largest VALUE stays. */
static inline void pools_raise(uint64_t *peak, uint64_t value)
{
	uint64_t seen = __atomic_load_n(peak, __ATOMIC_RELAXED);

	PEAK_SEEN(peak);
	while (value > seen &&
	       !__atomic_compare_exchange_n(peak, &seen, value, true, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED))
		;
}

#define pools_count(counter, by) __atomic_fetch_add((counter), (uint64_t)(by), __ATOMIC_RELAXED)

#endif
