/* SPDX-License-Identifier: MIT
 *
 * What the call sites of a ledger have live now, and sums of it. Only reads the ledger. Safe in any
 * thread, and while other threads allocate: then a block whose call has not returned may be counted
 * or not.
 */
#pragma once

#include "ledger/reader.h"

struct ledger_live {
	uint64_t blocks, bytes;
};

/* Which blocks count. */
enum ledger_counted {
	LEDGER_COUNT_ALLOCATED, /* all whose memory is allocated, also deferred frees */
	LEDGER_COUNT_LIVE,      /* those that are not freed: see ledger_block_is_live() */
	LEDGER_COUNT_REPORTED,  /* of these, those that the program does not ignore */
};

/* Returns what SITE, a record in VIEW, has live: the sum of its two balances. If the writer was too
 * old to write balances, walks over all blocks. */
struct ledger_live ledger_site_live(const struct ledger_view *view, const struct ledger_site *site,
				    enum ledger_counted counted);

/* Fills *RET with what the process allocated and freed so far. Objects that are not memory and
 * suballocations do not count. Blocks that ended in any other way count as freed. */
void ledger_totals(const struct ledger_view *view, struct ledger_totals *ret);

/* Adds to *SUM the memory that was allocated and freed from FROM to TO. Both are sums over many
 * counters, and other threads may allocate meanwhile. So a sum in TO may be smaller than in FROM:
 * then nothing is added to that sum. */
void ledger_totals_add(struct ledger_totals *sum, const struct ledger_totals *from,
		       const struct ledger_totals *to);
