/* SPDX-License-Identifier: MIT
 *
 * Suballocations: what a framework allocated inside the blocks that it caches.
 */
#ifndef GPULEAK_REPORT_MODEL_SUBALLOCATIONS_H
#define GPULEAK_REPORT_MODEL_SUBALLOCATIONS_H

#include <stdint.h>

#include "report/model/model.h"

/* The live suballocations of one call site (api, kind, device, stack). Their bytes are part of the
 * bytes of the blocks that they lie in. */
struct report_suballocations {
	/* Their sums. Only the fields up to `stack` are set, and `cache`: the name of the
	 * framework's allocator. */
	struct report_leak live;
	uint64_t allocated_blocks; /* since the start */
	uint64_t freed_blocks;
};

#endif
