/* SPDX-License-Identifier: MIT
 *
 * Finds call sites whose memory keeps growing from step to step. Has the rule, which works on
 * plain numbers, and its results for a process. A cache that grows and then stays constant is
 * not a suspect. Any thread may call growth_judge().
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "ledger/format.h"

#define GROWTH_STEPS_MIN 4u /* the rule reports no growth with fewer steps */
#define GROWTH_STEPS_MAX LEDGER_GROWTH_STEPS

/* The live bytes, or the live blocks, at COUNT steps, oldest first. */
struct growth_series {
	uint64_t values[GROWTH_STEPS_MAX];
	size_t count;
};

struct growth_verdict {
	/* number of last intervals in which the value grew; 0: it does not keep growing */
	unsigned int intervals;
	uint64_t per_step;      /* median growth of these intervals */
};

/* Applies the rule. A site is a suspect if it grew in each of at least the last three intervals and
 * its growth does not fade. Growth fades if the median of the later half of these intervals is
 * below half of the earlier half's median. If the site did not shrink at any step, it is also a
 * suspect if the rule applies to every second step. */
struct growth_verdict growth_judge(const struct growth_series *series);

struct report_step {
	uint32_t number;
	uint64_t time_ns; /* since the ledger's start */
	uint64_t live_bytes, live_blocks;
	const char *label; /* NULL: no label */
};

/* All steps with one name: what they allocated, freed and left, and their peak. */
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

/* A call site whose live bytes keep growing or, if they do not, whose live blocks do. */
struct report_suspect {
	const struct report_site *site; /* never NULL */
	uint32_t ref; /* of the first of its records in the ledger */
	uint64_t bytes, blocks; /* live at the last step */
	uint64_t bytes_per_step, blocks_per_step;
	uint64_t bytes_per_hour; /* 0: unknown, or the steps are too short to compute it */
	unsigned int intervals;
	struct growth_series series; /* live bytes at the last steps */
};

struct report_growth {
	uint64_t step_count; /* all marked steps */
	struct report_step *steps; /* the last steps, oldest first */
	size_t stored_count;
	/* fastest growth first, without suppressed suspects */
	struct report_suspect *suspects;
	size_t suspect_count;
	uint64_t suppressed; /* number of suspects that a suppression matches */
	/* Number of call sites to which the rule could not be applied, because the ledger has no
	 * room for their live memory. May count a call site several times. */
	uint64_t lost;
};
