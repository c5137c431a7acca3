/* SPDX-License-Identifier: MIT
 *
 * How much of a cache's memory its suballocations use, and which of them keep the rest: the cache
 * can free a block (a segment) only as a whole. Must not print.
 */
#pragma once

#include "report/model/model.h"

/* The suballocations of one call site that lie in segments with unused memory. */
struct report_pin {
	struct report_leak held; /* what they have in these segments: `site`, `bytes`, `blocks` and
				  * `cache` are set */
	/* the segments, and what is unused in them: two call sites may share a segment */
	uint64_t segments, segment_bytes, unused_bytes;
	/* of these, the segments that no other call site has suballocations in */
	uint64_t own_segments, own_unused_bytes;
};

/* The memory of one cache on one device. */
struct report_fragmentation {
	const char *cache; /* NULL: unknown */
	int device;
	/* The segments were allocated while a stream was captured: they belong to the private pool
	 * of a CUDA graph. */
	bool captured;
	const struct ledger_segment *segment; /* their stream and private pool; NULL: unknown */
	bool physical; /* at least one segment is physical memory that is mapped */
	uint64_t segments, pinned_segments;
	uint64_t reserved_bytes;
	uint64_t used_bytes;
	uint64_t pinned_free_bytes; /* unused in segments that have suballocations */
	uint64_t whole_free_bytes;  /* in segments without one */
	struct report_pin *pins; /* what keeps most alone comes first */
	size_t pin_count;
};

struct report_fragmentations {
	struct report_fragmentation *list; /* the largest first */
	size_t count;
};
