/* SPDX-License-Identifier: MIT
 *
 * Suballocations: what a framework allocated inside the blocks that it caches.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "report/model/model.h"

/* Where live suballocations of a call site lie. */
struct report_places {
	/* how many lie in no live block that was recorded, how many lie only partly in such blocks,
	 * and how many of their bytes lie outside of all such blocks */
	uint64_t outside_blocks, partly_blocks, outside_bytes;
	/* Bytes that are counted elsewhere already, because two suballocations overlap, or because
	 * memory is mapped twice. */
	uint64_t doubled_bytes;
};

/* The suballocations of one call site. Some are live, or the call site accumulates. Their bytes are
 * part of the bytes of the blocks that they lie in. */
struct report_suballocations {
	/* What is live at the end: 0 blocks if the program or its interpreter freed all. `cache` is
	 * the name of the pool, and `pattern` is set if a suppression matches. Apart from these two
	 * and `addresses`, only `site`, `bytes` and `blocks` are set. */
	struct report_leak live;
	uint64_t allocated_blocks; /* since the start */
	uint64_t freed_blocks;
	/* live blocks that the program ignores; `live` has them, too */
	uint64_t ignored_blocks, ignored_bytes;
	struct report_places places; /* of the live ones */
	enum report_trend trend;
	/* accumulating or filled: what the program had kept when the growth was last seen, that is
	 * before an interpreter freed all at its end; else 0 */
	uint64_t kept_blocks, kept_bytes;
	uint64_t peak_blocks;   /* most live blocks at one time; 0: unknown */
	double kept_per_second; /* accumulating: growth of the live blocks; 0: unknown */
};

/* Returns true if ENTRY accumulates and no suppression matches it. */
static inline bool report_accumulates(const struct report_suballocations *entry)
{
	return entry->trend == TREND_ACCUMULATING && !entry->live.pattern;
}

/* Returns the live bytes of ENTRY without those that are counted already. */
static inline uint64_t report_suballocated_bytes(const struct report_suballocations *entry)
{
	return entry->live.bytes > entry->places.doubled_bytes
		       ? entry->live.bytes - entry->places.doubled_bytes
		       : 0;
}
