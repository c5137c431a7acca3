/* SPDX-License-Identifier: MIT
 *
 * The leaks of a report by fingerprint, summed over devices, lines and processes, for baselines
 * and comparisons.
 */
#ifndef GPULEAK_REPORT_LEAK_TOTALS_H
#define GPULEAK_REPORT_LEAK_TOTALS_H

#include <stddef.h>
#include <stdint.h>

struct report;
struct report_leak;

struct leak_total {
	uint64_t fingerprint;
	uint64_t bytes;
	uint64_t blocks;
	const struct report_leak *largest; /* one of them, to name the place */
};

struct leak_totals {
	struct leak_total *entries; /* in the order of their fingerprints */
	size_t count;
};

/* Returns the fingerprint that LEAK was read with, or computes it from api, kind and stack. */
uint64_t report_leak_fingerprint(const struct report_leak *leak);

/* Fills *RET, to be finished by the caller; its leaks are REPORT's. 0 or -ENOMEM. */
int leak_totals_make(const struct report *report, struct leak_totals *ret);

/* Sorts the largest first; leak_totals_find() no longer works afterwards. */
void leak_totals_sort_by_size(struct leak_totals *totals);

/* The entry of FINGERPRINT, or NULL. */
const struct leak_total *leak_totals_find(const struct leak_totals *totals, uint64_t fingerprint);

void leak_totals_finish(struct leak_totals *totals);

#endif
