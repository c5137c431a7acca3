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

/* Returns the fingerprint of LEAK from the JSON report it was read from. Otherwise computes it from
 * api, kind and stack. */
uint64_t report_leak_fingerprint(const struct report_leak *leak);

/* Fills in *RET, whose leaks belong to REPORT. The caller releases *RET with leak_totals_finish().
 * Returns 0 or -ENOMEM. */
int leak_totals_make(const struct report *report, struct leak_totals *ret);

/* Like leak_totals_make(), but for call sites that accumulate, with the bytes and blocks that they
 * kept. `largest` has the live suballocations. */
int accumulation_totals_make(const struct report *report, struct leak_totals *ret);

/* Like leak_totals_make(), but for the holders of memory at its peak, of all memories. */
int peak_totals_make(const struct report *report, struct leak_totals *ret);

/* Like leak_totals_make(), but for leaks and call sites that accumulate, in one list. */
int all_totals_make(const struct report *report, struct leak_totals *ret);
/* Like leak_totals_make(), but for objects that are not memory, without suppressed ones. They have
 * 0 bytes. */
int object_totals_make(const struct report *report, struct leak_totals *ret);
/* Like leak_totals_make(), but for what a baseline lists: the entries of all_totals_make(), and
 * objects if WITH_OBJECTS is set. */
int baseline_totals_make(const struct report *report, bool with_objects, struct leak_totals *ret);

/* Sorts by size, largest first. Afterwards leak_totals_find() must not be used. */
void leak_totals_sort_by_size(struct leak_totals *totals);

/* Returns the total of FINGERPRINT, or NULL. */
const struct leak_total *leak_totals_find(const struct leak_totals *totals, uint64_t fingerprint);

void leak_totals_finish(struct leak_totals *totals);

#endif
