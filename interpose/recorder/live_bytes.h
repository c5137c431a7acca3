/* SPDX-License-Identifier: MIT
 *
 * Returns the live bytes of all threads and their peaks, for reports and for steps. Each recorded
 * allocation and free changes them, with functions of thread_state.h.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "ledger/format.h"
#include "ledger/shared.h"

struct ledger_block;
struct recorder;

/* Returns the live bytes of all threads together. */
int64_t live_bytes_total(struct recorder *recorder);
/* Returns the largest number of bytes that were live at one moment since the last call with
 * RESTART, or since the start. RESTART: starts a new measurement. */
uint64_t live_bytes_peak(struct recorder *recorder, bool restart);
/* From now on stores in *AT the largest number of bytes that are live at one moment, unless *AT is
 * larger. AT is a field of the ledger. Ends the measurement that the previous call began. AT NULL:
 * only ends it. */
void live_bytes_watch_peak(struct recorder *recorder, uint64_t *at);
/* Updates the peaks before a report. */
void live_bytes_settle_peak(struct recorder *recorder);
/* Moves the bytes of block FROM to block TO, whose bytes must be 0: the memory belongs to TO from
 * now on. Readers take no lock: they may see the bytes in both blocks for a moment, but never in
 * neither. */
void live_bytes_move(struct recorder *recorder, struct ledger_block *from, struct ledger_block *to);
/* Returns how BLOCK is hidden now. Other threads may change its marks meanwhile. */
static inline enum ledger_hidden live_bytes_hidden(const struct ledger_block *block)
{
	return ledger_block_hidden(shared_load(block->state), shared_load(block->marked));
}

/* BLOCK, which has BYTES, was hidden as BEFORE states, and is as NOW states: counts that at its
 * call site, see struct ledger_balance. */
void live_bytes_rehide(struct recorder *recorder, const struct ledger_block *block, int64_t bytes,
		       enum ledger_hidden before, enum ledger_hidden now);
