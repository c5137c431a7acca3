/* SPDX-License-Identifier: MIT
 *
 * The history of a handle: the calls that retained and released it. One record of bounded size in
 * the ledger for each live handle that was ever retained. It is reused when the block ends.
 */
#pragma once

#include <stdint.h>

#include "ledger/format.h"
#include "ledger/lock.h"

struct recorder;

struct histories {
	struct lock lock;
	struct ledger_history *spare; /* linked by next_spare */
};

/* Locking: the caller holds no shard's lock, because the ledger may have to grow. Returns an empty
 * history, or NULL if the ledger is full. */
struct ledger_history *history_take(struct recorder *recorder);
/* Makes HISTORY available for reuse. */
void history_give(struct recorder *recorder, struct ledger_history *history);

/* Locking: for the following functions the caller holds the lock of the block's shard. */

/* Makes EMPTY, from history_take(), the history of BLOCK. */
void history_attach(struct recorder *recorder, struct ledger_block *block,
		    struct ledger_history *empty);

/* Adds EVENT. If there is no room, removes the oldest complete pair of retain and release. Returns
 * the number that history_remove() takes; 0 if the event was not added. */
uint32_t history_add(struct recorder *recorder, struct ledger_history *history,
		     const struct ledger_reference *event);
/* Removes an event, because the driver's call failed. */
void history_remove(struct ledger_history *history, uint32_t order);
