/* SPDX-License-Identifier: MIT
 *
 * Finds what keeps growing from step to step: the rule on plain numbers, and its results for the
 * call sites of a process. A cache that fills and then stays is not a suspect.
 */
#ifndef GPULEAK_REPORT_GROWTH_H
#define GPULEAK_REPORT_GROWTH_H

#include <stddef.h>
#include <stdint.h>

#include "ledger/format.h"

struct report_stack;

#define GROWTH_STEPS_MIN 4u /* fewer steps prove nothing */
#define GROWTH_STEPS_MAX LEDGER_GROWTH_STEPS

/* The live bytes or blocks at COUNT steps, oldest first. */
struct growth_series {
	uint64_t values[GROWTH_STEPS_MAX];
	size_t count;
};

struct growth_verdict {
	unsigned int intervals; /* the last ones, over which it grew; 0: it does not keep on */
	uint64_t per_step;      /* the usual growth: median of those */
};

/* Suspects a site that grew in each of at least the last three intervals and whose growth does not
 * fade: the median growth of the later half must be at least half of the earlier half's. Also
 * suspects a site for which this holds for every second step, if it never shrank. */
struct growth_verdict growth_judge(const struct growth_series *series);

struct report_step {
	uint32_t number;
	uint64_t time_ns; /* since the ledger's start */
	uint64_t live_bytes, live_blocks;
	const char *label; /* NULL: none */
};

/* A site that keeps growing, in bytes or else in blocks. */
struct report_suspect {
	const char *api;
	const char *kind;
	int device;
	uint32_t stack_ref; /* of the ledger */
	const struct report_stack *stack; /* never NULL */
	uint64_t bytes, blocks; /* at the last step */
	uint64_t bytes_per_step, blocks_per_step;
	uint64_t bytes_per_hour; /* 0: unknown, or the steps are too short */
	unsigned int intervals;
	struct growth_series series; /* of bytes */
};

struct report_growth {
	uint64_t step_count; /* all that were marked */
	const struct report_step *steps; /* the last ones, oldest first */
	size_t kept_count;
	const struct report_suspect *suspects; /* fastest growing first; without suppressed ones */
	size_t suspect_count;
	uint64_t suppressed; /* suspects that a suppression names */
	uint64_t lost;       /* sites without a record: they are not judged */
};

#endif
