/* SPDX-License-Identifier: MIT
 *
 * Counts how many blocks of a call site are live while the process runs: see struct
 * ledger_live_series. Counts suballocations always, other blocks of the call sites that
 * pytorch/live_sites.c selects. Physical memory of virtual memory management may outlive its
 * handle, so its API counts it. Inline, because each recorded suballocation runs it. Any
 * thread may call these functions. Must not allocate or wait.
 */
#pragma once

#include "interpose/recorder/thread_state.h"
#include "ledger/live_series.h"

/* A thread adds its allocations to the count of the process only when they are more than this
 * number. So each thread's part in the error is at most 0.1 % of TOTAL, the count of the process,
 * and threads rarely write the same memory. */
#define UNCOUNTED(total) ((total) >> 10)

COLD void live_counts_begin_window(struct recorder *recorder, struct ledger_live_series *series,
				   uint64_t allocs, uint64_t suballocated);

/* Locking: the caller holds STATE's lock. Counts an allocation. Returns the count of the process
 * before it. */
static HOT uint64_t live_counts_add_to_process(struct recorder *recorder,
						  struct thread_state *state)
{
	_Atomic uint64_t *count = &SHARED(recorder->header->suballocated);
	uint64_t total = atomic_load_explicit(count, memory_order_relaxed);

	if (++state->uncounted_suballocations > UNCOUNTED(total)) {
		atomic_fetch_add_explicit(count, state->uncounted_suballocations,
					  memory_order_relaxed);
		state->uncounted_suballocations = 0;
	}
	return total;
}

/* Returns the series of SITE, or NULL if the ledger had no room for one. If a new window is due,
 * begins it. SUBALLOCATED is the number of counted allocations of the process, ALLOCS that of the
 * call site. */
static HOT struct ledger_live_series *live_counts_of(struct recorder *recorder,
							const struct ledger_site *site,
							uint64_t allocs, uint64_t suballocated)
{
	struct ledger_live_series *series;

	if (__builtin_expect(!site->series, 0))
		return NULL;
	series = ledger_at(&recorder->writer, site->series);
	if (__builtin_expect(live_series_is_due(series, suballocated), 0))
		live_counts_begin_window(recorder, series, allocs, suballocated);
	return series;
}

/* Locking: the caller holds STATE's lock. Counts the last allocation of SITE. */
static HOT void live_counts_add(struct recorder *recorder, struct thread_state *state,
				   const struct ledger_site *site, uint64_t bytes)
{
	uint64_t suballocated = live_counts_add_to_process(recorder, state);
	struct ledger_live_series *series =
		live_counts_of(recorder, site, site->allocs - 1, suballocated);

	if (series)
		live_series_add(series, live_amount(bytes));
}

/* A block of SITE ends. Returns the series in which it was counted, or NULL. */
static HOT struct ledger_live_series *live_counts_of_ending(struct recorder *recorder,
							       const struct ledger_site *site)
{
	return live_counts_of(recorder, site, site->allocs,
			      shared_load(recorder->header->suballocated));
}

/* Counts that a block of BYTES of SITE ends, which is not a suballocation. */
static inline void live_counts_remove(struct recorder *recorder, const struct ledger_site *site,
				      uint64_t bytes)
{
	struct ledger_live_series *series = live_counts_of_ending(recorder, site);

	if (series)
		live_series_remove_shared(series, live_amount(bytes));
}

/* Returns true if the series of SITE counts physical memory, not the blocks of SITE. */
static inline bool live_counts_physical(const struct ledger_site *site)
{
	return site->series && hook_kind_has(site->kind, TRAIT_PHYSICAL);
}
