/* SPDX-License-Identifier: MIT
 *
 * Counts the live blocks and bytes of each call site of the ledger at this moment, for the
 * fallback report and for steps. Only reads the ledger. Other threads continue meanwhile.
 */
#ifndef GPULEAK_TALLY_H
#define GPULEAK_TALLY_H

#include <stddef.h>
#include <stdint.h>

#include "ledger/reader.h"

struct tally {
	uint64_t blocks, bytes;
};

/* An element for each possible call site, by its offset in the file. Pages without call sites are
 * never touched, so they use no memory. */
struct tallies {
	struct tally *of;
	size_t size; /* in bytes */
};

/* Fills *RET and returns 0: then tallies_finish() must be called. Returns -ENOMEM if memory is
 * short. */
int tallies_count(const struct ledger_view *view, struct tallies *ret);
/* Sets the tallies of objects that are not memory to 0. */
void tallies_drop_objects(const struct ledger_view *view, const struct tallies *tallies);
void tallies_finish(struct tallies *tallies);

/* Returns the counts of SITE. */
static inline struct tally *tally_of(const struct tallies *tallies, const struct ledger_view *view,
				     const struct ledger_site *site)
{
	return &tallies->of[(size_t)((const uint8_t *)site - view->base) / sizeof(*site)];
}

#endif
