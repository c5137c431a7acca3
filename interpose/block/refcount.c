/* SPDX-License-Identifier: MIT
 *
 * References of handles: retained, released, and who did it, in the handle's history. The
 * last release ends the block as any free does, which is blocks.c's.
 */
#include "interpose/block/block_table.h"

#include "interpose/block/error_record.h"
#include "interpose/block/mappings.h"

/* ---- counts and histories; with the shard's lock ---- */

uint32_t references_note(struct recorder *recorder, struct ledger_block *block,
			 struct ledger_history **spare, const struct ledger_reference *event)
{
	if (!block->history && *spare) {
		history_attach(recorder, block, *spare);
		*spare = NULL;
	}
	return block->history
		       ? history_add(recorder, ledger_at(&recorder->writer, block->history), event)
		       : 0;
}

void references_count_down(struct recorder *recorder, struct ledger_block *block,
			   struct ledger_history **spare, const struct past *ending,
			   struct freeing *ret)
{
	struct ledger_reference event = {
		.op = LEDGER_RELEASE, .api = ending->freed_api, .stack = ending->freed_stack,
		.time_ns = ending->freed_ns,
	};

	block->references--;
	ret->order = references_note(recorder, block, spare, &event);
	ret->counted_down = true;
}

/* ---- retain ---- */

static bool retain(struct recorder *recorder, uint64_t key, const struct ledger_reference *event)
{
	struct shard *shard = shard_of(recorder, key);
	struct ledger_history *spare;
	struct entry *entry = entry_lock(recorder, shard, key, NULL, 1, &spare);
	bool known = entry && (entry->block || entry->held);
	int64_t again = 0;

	if (entry && entry->held) { /* its memory was still there: it lives again */
		again = (int64_t)entry->held->bytes;
		entry_revive(shard, entry, entry->held);
		references_note(recorder, entry->block, &spare, event);
	} else if (known) {
		entry->block->references++;
		references_note(recorder, entry->block, &spare, event);
	}
	entry_unlock(recorder, shard, spare);
	if (again)
		released_add(recorder, -again);
	return known;
}

bool record_retained(const struct site *site, uint64_t handle)
{
	struct ledger_reference event = { .op = LEDGER_RETAIN };
	struct recorder *recorder;
	bool known;

	if (!handle || !(recorder = recorder_enter()))
		return false;
	event.api = recorder_name_ref(recorder, site->hook);
	event.stack = origin_of(recorder, site->caller);
	event.time_ns = stripes_now(recorder);
	known = retain(recorder, key_of(site, handle), &event);
	recorder_leave();
	return known;
}

/* ---- release ---- */

/* The release failed: the handle still has that reference. */
static void count_up_again(struct recorder *recorder, const struct freeing *freeing)
{
	struct shard *shard = shard_of(recorder, freeing->key);
	struct entry *entry;

	lock_take(&shard->lock);
	entry = entry_find(shard, freeing->key);
	if (entry && entry->block) {
		entry->block->references++;
		if (entry->block->history)
			history_remove(ledger_at(&recorder->writer, entry->block->history),
				       freeing->order);
	}
	lock_give(&shard->lock);
}

void record_releasing(const struct site *site, uint64_t handle, struct freeing *ret)
{
	struct recorder *recorder = block_take(site, handle, ret);

	if (!recorder)
		return;
	wrong_free_releasing(recorder, site, ret);
	recorder_leave();
}

static void released_other_kind(struct freeing *freeing, enum outcome outcome)
{
	struct recorder *recorder = recorder_enter();

	if (recorder && recorder == freeing->recorder) {
		if (outcome == OUTCOME_DONE)
			block_drop(recorder, freeing->block, (int64_t)freeing->bytes);
		else
			block_put_back(recorder, freeing);
	}
	if (recorder)
		recorder_leave();
}

/* The block that FREEING took out ends with the call: the driver calls nothing back. */
static void drop_mappings(const struct freeing *freeing)
{
	struct recorder *recorder = recorder_enter();
	struct shard *shard = shard_of(freeing->recorder, freeing->key);
	struct mapped *mapped;

	if (recorder && recorder == freeing->recorder) {
		lock_take(&shard->lock);
		mapped = mappings_take(recorder, shard, freeing->key, freeing->block);
		lock_give(&shard->lock);
		if (mapped)
			mappings_pass_on(recorder, mapped,
					 key_in(space_of(freeing->key), freeing->block->parent));
	}
	if (recorder)
		recorder_leave();
}

void record_released(struct hook *hook, struct freeing *freeing, enum outcome outcome, int result)
{
	if (!freeing->recorder)
		return;
	wrong_free_answered(hook, freeing, outcome, result);
	if (freeing->error) {
		if (freeing->block) /* of another kind */
			released_other_kind(freeing, outcome);
	} else if (!freeing->counted_down) {
		if (outcome == OUTCOME_DONE && freeing->block && !freeing->watched &&
		    (freeing->block->marked & LEDGER_BLOCK_MAPPED))
			drop_mappings(freeing);
		record_freed(hook, freeing, outcome, result);
	} else if (outcome == OUTCOME_INVALID || outcome == OUTCOME_REFUSED) {
		count_up_again(freeing->recorder, freeing);
	}
}
