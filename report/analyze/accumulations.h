/* SPDX-License-Identifier: MIT
 *
 * Sums up the suballocations that accumulate in one or several processes, without suppressed ones.
 */
#ifndef GPULEAK_REPORT_ACCUMULATIONS_H
#define GPULEAK_REPORT_ACCUMULATIONS_H

#include <stddef.h>
#include <stdint.h>

struct accumulations {
	uint64_t blocks, bytes; /* what was kept */
	size_t places; /* lines of the application; 0: nothing accumulates */
	/* the place that kept most bytes: one of its stacks, and its process */
	uint64_t most_bytes;
	const struct report_stack *most;
	const char *cache; /* its pool, NULL: unknown */
	const struct report_process *most_in;
};

/* Adds PROCESS. *RET starts as { 0 }. */
void accumulations_add(struct accumulations *ret, const struct report_process *process);

#endif
