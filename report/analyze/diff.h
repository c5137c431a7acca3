/* SPDX-License-Identifier: MIT
 *
 * Compares two reports by fingerprint. Must not print or decide the gate.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "report/analyze/leak_totals.h"

enum diff_change {
	DIFF_NEW,
	DIFF_GREW,   /* more bytes or more blocks */
	DIFF_SHRANK,
	DIFF_GONE,
	DIFF_SAME,
	DIFF_CHANGES,
};

struct diff_row {
	enum diff_change change;
	struct leak_total before, after; /* all 0: this report does not have the leak */
};

struct diff_list {
	struct diff_row *rows; /* ordered by `change`, then by size of the change, largest first */
	size_t count;
	size_t counts[DIFF_CHANGES];
};

struct diff {
	const struct report *before, *after;
	struct diff_list leaks;
	struct diff_list context_ends; /* memory that ended with its context */
	/* call sites that accumulate, with the bytes and blocks that they kept */
	struct diff_list accumulating;
	struct diff_list objects; /* objects that are not memory; they do not make a report worse */
	struct diff_list peak; /* holders of the memory at its peak */
	uint64_t peak_before, peak_after; /* the largest peak of one memory of one process */
	/* true if a leak or memory that ended with its context is new or grew, if a call site
	 * accumulates that did not before, or if there are more invalid frees. A call site that
	 * kept more than before is not worse: what accumulates grows with the length of a run. */
	bool worse;
};

/* Returns the comparison, which refers to the reports. The caller releases it with
 * diff_finish(). */
struct diff diff_make(const struct report *before, const struct report *after);

/* Returns "new", "grew", "shrank", "gone" or "unchanged". */
const char *diff_word(enum diff_change change);

/* Returns the largest leak of the side that has ROW; of the later side if both have it. */
static inline const struct report_leak *diff_leak(const struct diff_row *row)
{
	return row->after.largest ? row->after.largest : row->before.largest;
}

void diff_finish(struct diff *diff);
