/* SPDX-License-Identifier: MIT
 *
 * The series of live suballocations of one call site (struct ledger_live_series): the functions
 * that begin a new window and that read the windows. Writer and readers use the same code, so that
 * all series of a ledger have the same windows. No allocation, no lock that waits, no system call.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "ledger/format.h"
#include "ledger/shared.h"

/* What a series needs to begin a window. */
struct live_moment {
	uint64_t suballocated; /* number of allocations of the process */
	uint64_t allocs;       /* number of allocations of the call site */
	uint64_t time_ns;
};

/* Returns one block of BYTES as an amount. */
static inline uint64_t live_amount(uint64_t bytes)
{
	const uint64_t one = (uint64_t)1 << LEDGER_AMOUNT_UNIT_BITS;
	uint64_t units = bytes / LEDGER_AMOUNT_UNIT + (bytes % LEDGER_AMOUNT_UNIT != 0);

	return one + (units < one ? units : one - 1);
}

/* Returns the shift of all windows after SUBALLOCATED allocations. */
unsigned int live_shift(uint64_t suballocated);

/* Begins the window that MOMENT belongs to. Does nothing if another thread is doing so, because the
 * writer must not wait. Call it when live_series_is_due() returns true. */
void live_series_begin(struct ledger_live_series *series, const struct live_moment *moment);

static inline bool live_series_is_due(const struct ledger_live_series *series,
				      uint64_t suballocated)
{
	return suballocated >= shared_load(series->until);
}

/* Count an allocation or a free of AMOUNT. They use no atomic addition, because that would double
 * their cost. Frameworks report the memory of one device under a lock of their own. If two threads
 * nevertheless change one series at the same time, a count may be lost. So readers compare the
 * counts with the live blocks. */
static inline void live_series_add(struct ledger_live_series *series, uint64_t amount)
{
	uint64_t allocated = amount + shared_load(series->allocated);
	uint64_t live = allocated - shared_load(series->freed);

	shared_store(series->allocated, allocated);
	if (live > shared_load(series->high))
		shared_store(series->high, live);
}

static inline void live_series_note_low(struct ledger_live_series *series, uint64_t freed)
{
	uint64_t live = shared_load(series->allocated) - freed;

	if (live < shared_load(series->low))
		shared_store(series->low, live);
}

static inline void live_series_remove(struct ledger_live_series *series, uint64_t amount)
{
	uint64_t freed = amount + shared_load(series->freed);

	shared_store(series->freed, freed);
	live_series_note_low(series, freed);
}

/* Counts a free of AMOUNT; several threads may call it for one series at the same time. No count is
 * lost, but `low` may miss the lowest amount. */
static inline void live_series_remove_shared(struct ledger_live_series *series, uint64_t amount)
{
	uint64_t freed = amount + shared_add(series->freed, amount);

	live_series_note_low(series, freed);
}

/* Copies SERIES, which may have any bytes, to *RET, and begins the window of END. Then window[0] ..
 * window[current - 1] are complete, and `low` and `high` belong to the window after these. Returns
 * false if the writer was changing the series, or if it is invalid. */
bool live_series_read(const struct ledger_live_series *series, const struct live_moment *end,
		      struct ledger_live_series *ret);
