/* SPDX-License-Identifier: MIT
 *
 * The leaks of a report by fingerprint, or its call sites that accumulate, for baselines and
 * comparisons. Each total sums up all devices, source lines and processes.
 */
#ifndef GPULEAK_REPORT_LEAK_TOTALS_H
#define GPULEAK_REPORT_LEAK_TOTALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct report;
struct report_leak;

struct leak_total {
	uint64_t fingerprint;
	uint64_t bytes;
	uint64_t blocks;
	const struct report_leak *largest; /* the largest of these leaks, to show its place */
};

struct leak_totals {
	struct leak_total *entries; /* ordered by fingerprint */
	size_t count;
};

/* call sites that accumulate, with the bytes and blocks that they kept; `largest` has the live
 * suballocations */
#define TOTALS_OF_ACCUMULATIONS 2u
#define TOTALS_OF_PEAKS 4u   /* the holders of memory at its peak, of all memories */
#define TOTALS_OF_OBJECTS 8u /* objects that are not memory, without suppressed ones: 0 bytes */

/* Returns the totals of the leaks that the flags OF select. The leaks belong to REPORT. The caller
 * releases the totals with leak_totals_finish(). */
struct leak_totals leak_totals_make(const struct report *report, unsigned int of);

/* Sorts by size, largest first. Afterwards leak_totals_find() must not be used. */
void leak_totals_sort_by_size(struct leak_totals *totals);

/* Returns the total of FINGERPRINT, or NULL. */
const struct leak_total *leak_totals_find(const struct leak_totals *totals, uint64_t fingerprint);

void leak_totals_finish(struct leak_totals *totals);

#endif
