/* SPDX-License-Identifier: MIT
 *
 * Suballocations: what a framework allocated inside the blocks that it caches.
 */
#ifndef GPULEAK_REPORT_MODEL_SUBALLOCATIONS_H
#define GPULEAK_REPORT_MODEL_SUBALLOCATIONS_H

#include <stdint.h>

#include "report/model/model.h"

/* Where live suballocations of a call site lie. */
struct report_places {
	/* lie in no live block that was recorded, or only partly in such blocks; the bytes of both
	 * that lie in none */
	uint64_t outside_blocks, partly_blocks, outside_bytes;
	/* bytes that are counted already: those of a suballocation that overlaps with another, or
	 * of memory that is mapped twice */
	uint64_t doubled_bytes;
};

/* The live suballocations of one call site (api, kind, device, stack). Their bytes are part of the
 * bytes of the blocks that they lie in. */
struct report_suballocations {
	/* Their sums. Only the fields up to `stack` are set, and `cache`: the name of the
	 * framework's allocator. */
	struct report_leak live;
	uint64_t allocated_blocks; /* since the start */
	uint64_t freed_blocks;
	struct report_places places;
};

#endif
