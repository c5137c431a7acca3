/* SPDX-License-Identifier: MIT
 *
 * What lives of each row at this moment, counted over the blocks of our own ledger: for the
 * plain report and for steps. Reads only; other threads go on meanwhile.
 */
#ifndef GPULEAK_TALLY_H
#define GPULEAK_TALLY_H

#include <stddef.h>
#include <stdint.h>

#include "ledger/reader.h"

struct tally {
	uint64_t blocks, bytes;
};

/* By the row's place in the file; pages of it that no row needs are never touched. */
struct tallies {
	struct tally *of;
	size_t size; /* in bytes */
};

/* 0 with *RET for tallies_finish(), or -ENOMEM. Objects that are no memory count as nothing. */
int tallies_count(const struct ledger_view *view, struct tallies *ret);
void tallies_finish(struct tallies *tallies);

static inline struct tally *tally_of(const struct tallies *tallies, const struct ledger_view *view,
				     const struct ledger_row *row)
{
	return &tallies->of[(size_t)((const uint8_t *)row - view->base) / sizeof(*row)];
}

#endif
