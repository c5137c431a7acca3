/* SPDX-License-Identifier: MIT
 *
 * Sums over all call sites and blocks of a ledger, for named steps. Only reads the ledger. Safe in
 * any thread, and while other threads allocate.
 */
#ifndef GPULEAK_LEDGER_TOTALS_H
#define GPULEAK_LEDGER_TOTALS_H

#include "ledger/reader.h"

/* Fills *RET with what the process allocated and freed so far. Objects that are not memory and
 * suballocations do not count. Blocks that ended in any other way count as freed. */
void ledger_totals(const struct ledger_view *view, struct ledger_totals *ret);

/* Adds to *SUM the memory that was allocated and freed from FROM to TO. Both are sums over many
 * counters, and other threads may allocate meanwhile. So a sum in TO may be smaller than in FROM:
 * then nothing is added to that sum. */
void ledger_totals_add(struct ledger_totals *sum, const struct ledger_totals *from,
		       const struct ledger_totals *to);

#endif
