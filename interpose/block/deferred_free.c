/* SPDX-License-Identifier: MIT
 *
 * Blocks whose last reference is gone while the driver still has their memory: they wait in
 * the table until it says that they are gone, inside the release or long after it. How much
 * waits is deferred_totals.c's to sum up. Must not end a block whose release is still under way.
 */
#include "interpose/block/block_table.h"

#include "interpose/block/error_record.h"
#include "interpose/block/mappings.h"

bool waiting_is_held(const struct entry *entry, const struct freeing *freeing)
{
	return entry && entry->held && entry->held == freeing->block &&
	       entry->held->state >> 8 == freeing->use;
}

bool waiting_is_there(struct recorder *recorder, const struct freeing *freeing)
{
	struct shard *shard = shard_of(recorder, freeing->key);
	bool held;

	lock_take(&shard->lock);
	held = waiting_is_held(entry_find(shard, freeing->key), freeing);
	lock_give(&shard->lock);
	return held;
}

/* The memory of BLOCK, which waited for WAIT_NS, is gone. */
static void end_released(struct recorder *recorder, struct ledger_block *block,
			 const struct past *ending, uint64_t wait_ns, bool was_counted)
{
	bool waited = was_counted || wait_ns >= RELEASED_WAIT_NS;

	if (waited && !was_counted)
		released_look(recorder); /* the driver waited inside the call */
	released_add(recorder, -(int64_t)block->bytes);
	block_drop(recorder, block, (int64_t)block->bytes);
	if (waited) {
		released_look(recorder);
		released_waited(recorder, ending, wait_ns);
	}
}

/* The driver called back inside the call, on this very thread. */
static bool has_called_back(const struct freeing *freeing)
{
	struct releasing *releasing = &thread_self.releasing;
	bool gone = releasing->gone && releasing->block == freeing->block;

	*releasing = (struct releasing){ 0 };
	return gone;
}

/* The driver said inside the call that the memory goes, and returned: now it is gone.
 * NVIDIA's says so at once and then waits for the commands that use it. */
static bool has_gone(const struct entry *entry, const struct freeing *freeing)
{
	return !waiting_is_held(entry, freeing) &&
	       freeing->block->state == (freeing->use << 8 | LEDGER_BLOCK_RELEASED);
}

static void end_gone(struct recorder *recorder, struct hook *hook, const struct freeing *freeing)
{
	struct past ending = {
		.row = freeing->block->row,
		.bytes = freeing->block->bytes,
		.freed_api = recorder_name_ref(recorder, hook),
		.freed_stack = freeing->stack,
	};

	end_released(recorder, freeing->block, &ending,
		     released_now(recorder) - freeing->since_ns, false);
}

/* FREEING's entry, locked, with room for an event if its block is still held. */
static struct entry *lock_released(struct recorder *recorder, struct shard *shard,
				   const struct freeing *freeing,
				   struct ledger_history **ret_spare)
{
	struct entry *entry;

	*ret_spare = NULL;
	for (bool tried = false;; tried = true) {
		lock_take(&shard->lock);
		entry = entry_find(shard, freeing->key);
		if (tried || !waiting_is_held(entry, freeing) || entry->held->history)
			return entry;
		lock_give(&shard->lock);
		*ret_spare = history_take(recorder); /* the ledger may grow: not with the lock */
	}
}

/* The driver did not call back on this thread: the table has the outcome. */
static void settle(struct recorder *recorder, struct hook *hook, const struct freeing *freeing)
{
	struct ledger_reference event = {
		.op = LEDGER_RELEASE, .api = recorder_name_ref(recorder, hook),
		.stack = freeing->stack, .time_ns = freeing->since_ns,
	};
	struct shard *shard = shard_of(recorder, freeing->key);
	struct ledger_history *spare;
	struct entry *entry = lock_released(recorder, shard, freeing, &spare);
	bool held = waiting_is_held(entry, freeing), gone = has_gone(entry, freeing);

	if (held) {
		references_note(recorder, entry->held, &spare, &event);
		ledger_block_set(entry->held, LEDGER_BLOCK_RELEASED);
	}
	entry_unlock(recorder, shard, spare);
	if (held)
		released_look(recorder);
	if (gone)
		end_gone(recorder, hook, freeing);
}

void waiting_settle(struct recorder *recorder, struct hook *hook, const struct freeing *freeing)
{
	if (has_called_back(freeing))
		end_gone(recorder, hook, freeing);
	else
		settle(recorder, hook, freeing);
}

/* ---- told by the driver ---- */

/* A block whose memory is gone. */
struct destroyed {
	struct ledger_block *block; /* NULL: its release is under way, and ends it */
	struct past ending;         /* its release, if that was seen */
	struct mapped *mapped;      /* its mappings, and the block whose part it was */
	uint64_t parent;
};

static void take_mapped(struct recorder *recorder, struct shard *shard, const struct entry *entry,
			struct destroyed *ret)
{
	struct ledger_block *block = entry->held ? entry->held : entry->block;

	ret->mapped = mappings_take(recorder, shard, entry->key, block);
	ret->parent = block->parent;
}

/* Takes the block that was made with WATCHED, and whose handle has KEY, out of the table. */
static void take_destroyed(struct recorder *recorder, uint64_t key, uint64_t watched,
			   struct destroyed *ret)
{
	struct releasing *releasing = &thread_self.releasing;
	struct entry *hint = releasing->watched == watched ? releasing->entry : NULL;
	struct shard *shard = shard_of(recorder, key);
	struct entry *entry;

	lock_take(&shard->lock);
	entry = entry_known(shard, key, hint);
	if (entry && entry->watched != watched)
		entry = NULL; /* told late: the handle is another block's by now */
	if (entry && (entry->held || entry->block))
		take_mapped(recorder, shard, entry, ret);
	if (entry && entry->held) {
		if (LEDGER_BLOCK_STATE(entry->held->state) == LEDGER_BLOCK_RELEASED) {
			ret->block = entry->held;
		} else {
			ledger_block_set(entry->held, LEDGER_BLOCK_RELEASED);
			releasing->gone = hint && entry->held == releasing->block;
		}
		entry->held = NULL;
		if (entry->past)
			ret->ending = entry->past[0];
		entry_link_dead(&recorder->arena, shard, entry);
	} else if (entry && entry->block) {
		ret->block = entry_die(&recorder->arena, shard, entry, &ret->ending);
	}
	lock_give(&shard->lock);
}

static void end_destroyed(struct recorder *recorder, struct ledger_block *block,
			  const struct past *ending)
{
	uint64_t now = released_now(recorder);

	if (LEDGER_BLOCK_STATE(block->state) == LEDGER_BLOCK_RELEASED) {
		end_released(recorder, block, ending,
			     now > ending->freed_ns ? now - ending->freed_ns : 0, true);
		return;
	}
	count_in_row(recorder, block->row, offsetof(struct ledger_row, unseen), 1);
	block_drop(recorder, block, (int64_t)block->bytes);
}

void record_destroyed(enum api api, uint64_t handle, uint64_t watched)
{
	struct recorder *recorder = recorder_now(); /* a child does not begin with this */
	struct destroyed destroyed = { 0 };

	if (!recorder || !(recorder = recorder_enter()))
		return;
	take_destroyed(recorder, key_of_object(api, handle), watched, &destroyed);
	if (destroyed.mapped)
		mappings_pass_on(recorder, destroyed.mapped,
				 key_of_object(api, destroyed.parent));
	if (destroyed.block)
		end_destroyed(recorder, destroyed.block, &destroyed.ending);
	recorder_leave();
}
