/* SPDX-License-Identifier: MIT
 *
 * The leaks of a report by fingerprint, or its call sites that accumulate, for baselines and
 * comparisons. Each total sums up all devices, source lines and processes.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct report;
struct report_site;

struct leak_total {
	unsigned int of; /* one of TOTALS_OF_*: the list of the process */
	const struct report_process *process; /* that of `largest` */
	const struct report_leak *largest; /* the largest of these leaks, to show its place */
	uint64_t fingerprint;
	uint64_t bytes;
	uint64_t blocks;
	/* what would come back if these leaks were freed; not of sums of several leaks */
	uint64_t keeps;
};

struct leak_totals {
	struct leak_total *entries;
	size_t count;
};

#define TOTALS_OF_LEAKS 1u
#define TOTALS_OF_CACHES 2u  /* memory in caches of frameworks */
#define TOTALS_OF_OBJECTS 4u /* objects that are not memory: 0 bytes */
/* call sites that accumulate, with the bytes and blocks that they kept; `largest` has the live
 * suballocations */
#define TOTALS_OF_ACCUMULATIONS 8u
#define TOTALS_OF_CONTEXT_ENDS 32u /* memory that ended with its context, without caches */
#define TOTALS_OF_PEAKS 16u /* the holders of memory at its peak, of all memories */

/* Returns one entry for each leak of the lists that the flags OF select, in the order of the
 * processes and of these flags. KEY(site, DATA) returns the fingerprint of a leak's call site.
 * Leaves out what a suppression matches. The leaks belong to REPORT. The caller releases the
 * entries with leak_totals_finish(). */
typedef uint64_t leak_key_fn(const struct report_site *site, const void *data);
struct leak_totals leak_totals_list_by(const struct report *report, unsigned int of,
				       leak_key_fn *key, const void *data);
/* Does the same, but adds up the entries with the same fingerprint, and orders them by
 * fingerprint. */
struct leak_totals leak_totals_make_by(const struct report *report, unsigned int of,
				       leak_key_fn *key, const void *data);
/* The same, by report_site_fingerprint(). */
struct leak_totals leak_totals_make(const struct report *report, unsigned int of);

/* Sorts by size, largest first. Afterwards leak_totals_find() must not be used. */
void leak_totals_sort_by_size(struct leak_totals *totals);

/* Returns the total of FINGERPRINT, or NULL. */
const struct leak_total *leak_totals_find(const struct leak_totals *totals, uint64_t fingerprint);

void leak_totals_finish(struct leak_totals *totals);

/* Returns true if gpuleak attached to one of the processes. */
bool report_was_attached(const struct report *report);
