/* SPDX-License-Identifier: MIT
 *
 * Named steps of a process: what each name allocated, freed and left, and its peak.
 */
#ifndef GPULEAK_REPORT_MODEL_NAMED_STEPS_H
#define GPULEAK_REPORT_MODEL_NAMED_STEPS_H

#include <stdbool.h>
#include <stdint.h>

#include "ledger/format.h"

/* All steps with one name. */
struct report_named_step {
	const char *name; /* NULL: all further names, for which the ledger had no room */
	uint64_t count;
	bool open; /* the last of these steps has not ended: what it did until now is counted */
	struct ledger_totals totals;
	uint64_t peak_bytes; /* the largest peak of these steps */
};

/* Returns what STEP left: allocated minus freed. Negative if it freed more than it allocated,
 * because it also freed blocks of earlier steps. */
static inline int64_t named_step_left_bytes(const struct report_named_step *step)
{
	return (int64_t)(step->totals.allocated_bytes - step->totals.freed_bytes);
}

static inline int64_t named_step_left_blocks(const struct report_named_step *step)
{
	return (int64_t)(step->totals.allocated_blocks - step->totals.freed_blocks);
}

#endif
