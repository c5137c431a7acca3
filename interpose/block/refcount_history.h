/* SPDX-License-Identifier: MIT
 *
 * Who retained and who released a handle: one record of bounded size for each live handle
 * that was ever retained, in the ledger, used again when its block ends.
 */
#ifndef GPULEAK_HISTORY_H
#define GPULEAK_HISTORY_H

#include <stdint.h>

#include "ledger/format.h"
#include "ledger/lock.h"

struct recorder;

struct histories {
	struct lock lock;
	struct ledger_history *spare; /* linked by `next_spare` */
};

/* An empty history, or NULL. Not with a shard's lock: the ledger may have to grow. */
struct ledger_history *history_take(struct recorder *recorder);
void history_give(struct recorder *recorder, struct ledger_history *history);

/* The rest with the lock of the block's shard. */

/* EMPTY, from history_take(), becomes BLOCK's. */
void history_attach(struct recorder *recorder, struct ledger_block *block,
		    struct ledger_history *empty);

/* Adds EVENT. When there is no room, the pair of retain and release that ended first goes.
 * Returns what history_remove() takes, 0 if the event is not there. */
uint32_t history_add(struct recorder *recorder, struct ledger_history *history,
		     const struct ledger_reference *event);
/* The call failed: as if it had not been tried. */
void history_remove(struct ledger_history *history, uint32_t order);

#endif
