/* SPDX-License-Identifier: MIT
 *
 * Counts refused frees in their ledger records. There are few records, so a list is searched. What
 * finds no room is only counted, in LEDGER_TROUBLE_REFUSED_FREES.
 */
#include "interpose/refusal/refused_frees.h"

#include "ledger/shared.h"

/* After an error that breaks a context, each free fails: all with one result share a record. */
static bool is_same(const struct ledger_refused_free *a, const struct ledger_refused_free *b)
{
	return a->flags == b->flags && a->result == b->result &&
	       (a->flags == LEDGER_REFUSED_FREE_BROKEN ||
		(a->site == b->site && a->stack == b->stack && a->api == b->api));
}

/* Locking: the caller holds the lock of refused_frees. Returns the record for NEW, which it adds if
 * needed, or NULL if there is no room. */
static struct ledger_refused_free *find_record(struct recorder *recorder,
					       const struct ledger_refused_free *new)
{
	struct refused_frees *frees = recorder->refused_frees;
	uint32_t ref;

	for (unsigned int i = 0; i < frees->count; i++)
		if (is_same(frees->record[i], new))
			return frees->record[i];
	ref = frees->count < LEDGER_REFUSED_FREES_MAX
		      ? ledger_add_refused_free(&recorder->writer, new)
		      : 0;
	if (!ref)
		return NULL;
	frees->record[frees->count] = ledger_at(&recorder->writer, ref);
	return frees->record[frees->count++];
}

/* Locking: as find_record(). Stores NAME in place of a block that has ended, so that the record
 * names blocks that were never freed. */
static void add_block(struct recorder *recorder, struct ledger_refused_free *record, uint64_t name)
{
	for (unsigned int i = 0; i < LEDGER_REFUSED_FREE_BLOCKS; i++) {
		const struct ledger_block *block =
			ledger_at(&recorder->writer, (uint32_t)record->block[i]);
		uint32_t state = shared_load(block->state); /* other threads change it */

		if (record->block[i] == name)
			return;
		if (record->block[i] &&
		    ledger_block_name(state, (uint32_t)record->block[i]) == record->block[i] &&
		    LEDGER_BLOCK_STATE(state) != LEDGER_BLOCK_UNUSED)
			continue;
		shared_store(record->block[i], name);
		return;
	}
}

void refused_free_record(struct recorder *recorder, const struct ledger_refused_free *new,
			 uint64_t block)
{
	struct ledger_refused_free *record;

	HOLD(&recorder->refused_frees->lock);
	record = find_record(recorder, new);
	if (record)
		shared_store(record->count, record->count + 1);
	if (record && block)
		add_block(recorder, record, block);
}
