/* SPDX-License-Identifier: MIT
 *
 * Owns every change of a block's state, in the table and in the ledger:
 *
 *              block_insert              block_begin_free
 *     unused ---------------> live ---------------------------> being freed
 *       ^                     | ^ ^       block_undo_free         |  |
 *       |                     | | +-------------------------------+  |
 *       |                     | |                                    |
 *       |  the driver reports | | block_retain      block_end_watched|
 *       |  an unseen end, or  | +------------- released <------------+
 *       |  its context ends   |                    |                 |
 *       |                     |                    | block_destroyed |
 *       +---------------------+--------------------+-----------------+
 *         block_drop                                  the driver accepted the free
 *
 * "Released" is the state of a deferred free. A block that is being freed is not in the table,
 * because the driver may give its address to another thread at once. The block belongs to the
 * thread that frees it. A watched block is one whose end the driver will report (struct call). Only
 * watched blocks become released. They do not count against GPULEAK_LIMIT, because the application
 * does not hold them. Their entry keeps `watched` until the driver reports the end on
 * another thread. Must not call the driver. Holds a shard's lock for table work only.
 */
#include "interpose/block/block_state.h"

#include <string.h>

#include "interpose/recorder/context_ends.h"
#include "interpose/recorder/ipc.h"
#include "interpose/recorder/live_counts.h"
#include "interpose/recorder/trace.h"
#include "interpose/block/mappings.h"

/* ---- references ---- */

/* Locking: the caller holds the shard's lock. Adds EVENT to BLOCK's history. If BLOCK has no
 * history, *SPARE becomes its history, see prepare_history(). Returns the number of the event for
 * history_remove(), or 0 if it was not added. */
static uint32_t note_reference(struct recorder *recorder, struct ledger_block *block,
			       struct ledger_history **spare,
			       const struct ledger_reference *event)
{
	if (!block->history && *spare) {
		history_attach(recorder, block, *spare);
		*spare = NULL;
	}
	return block->history
		       ? history_add(recorder, ledger_at(&recorder->writer, block->history), event)
		       : 0;
}

/* Locking: the caller holds the shard's lock. Removes one of several references of BLOCK, for the
 * release that ENDING describes. SPARE: see prepare_history(). */
static void count_down(struct recorder *recorder, struct ledger_block *block,
		       struct ledger_history **spare, const struct past *ending,
		       struct freeing *freeing)
{
	struct ledger_reference event = {
		.op = LEDGER_RELEASE, .api = ending->freed_api, .stack = ending->freed_stack,
		.time_ns = ending->freed_ns,
	};

	block->references--;
	freeing->order = note_reference(recorder, block, spare, &event);
	freeing->counted_down = true;
}

void block_undo_count_down(struct recorder *recorder, const struct freeing *freeing)
{
	struct shard *shard = shard_of(recorder, freeing->key);
	struct entry *entry;

	HOLD(&shard->lock);
	entry = entry_find(shard, freeing->key);
	if (entry && entry->block) {
		entry->block->references++;
		if (entry->block->history)
			history_remove(ledger_at(&recorder->writer, entry->block->history),
				       freeing->order);
	}
}

/* Locking: the caller holds the lock of SHARD. ENTRY is KEY's entry, or NULL. If its live block has
 * no history yet, *RET_SPARE gets a new one, otherwise NULL. A new one is allocated without the
 * lock, because the ledger may have to grow. So KEY's entry may change: returns the present one, or
 * NULL. */
static struct entry *prepare_history(struct recorder *recorder, struct shard *shard,
				     struct entry *entry, uint64_t key,
				     struct ledger_history **ret_spare)
{
	*ret_spare = NULL;
	if (!entry || !entry->block || entry->block->history)
		return entry;
	lock_give(&shard->lock);
	*ret_spare = history_take(recorder);
	lock_take(&shard->lock);
	return entry_find(shard, key);
}

static void unlock_retained(struct recorder *recorder, struct shard *shard,
			    struct ledger_history *spare)
{
	lock_give(&shard->lock);
	if (spare)
		history_give(recorder, spare);
}

bool block_retain(struct recorder *recorder, uint64_t key, const struct ledger_reference *event)
{
	struct shard *shard = shard_of(recorder, key);
	struct ledger_history *spare;
	struct entry *entry;
	enum ledger_hidden hidden;
	int64_t revived = 0;
	bool known;

	lock_take(&shard->lock);
	entry = prepare_history(recorder, shard, entry_find(shard, key), key, &spare);
	known = entry && (entry->block || entry->deferred);
	if (entry && entry->deferred) {
		revived = (int64_t)entry->deferred->bytes;
		if (limits_on())
			limits_block_changed(recorder, entry->deferred->site, revived);
		hidden = live_bytes_hidden(entry->deferred);
		entry_revive(shard, entry, entry->deferred, entry->span, entry->hint);
		live_bytes_rehide(recorder, entry->block, revived, hidden,
				  live_bytes_hidden(entry->block));
		note_reference(recorder, entry->block, &spare, event);
	} else if (known) {
		entry->block->references++;
		note_reference(recorder, entry->block, &spare, event);
	}
	unlock_retained(recorder, shard, spare);
	if (revived)
		deferred_add(-revived);
	return known;
}

int64_t block_add_references(struct recorder *recorder, uint64_t key, int64_t by)
{
	struct shard *shard = shard_of(recorder, key);
	struct entry *entry;

	HOLD(&shard->lock);
	entry = entry_find(shard, key);
	if (!entry || !entry->block)
		by = 0;
	else if (by < 1 - (int64_t)entry->block->references)
		by = 1 - (int64_t)entry->block->references;
	if (by)
		entry->block->references = (uint32_t)(entry->block->references + by);
	return by;
}

bool block_set_watched(struct recorder *recorder, uint64_t key, uint64_t before, uint64_t after)
{
	struct shard *shard = shard_of(recorder, key);
	struct entry *entry;
	bool found;

	lock_take(&shard->lock);
	entry = entry_find(shard, key);
	found = entry && entry->watched == before;
	if (found)
		entry->watched = after;
	lock_give(&shard->lock);
	return found;
}

/* ---- live -> being freed ---- */

bool block_begin_other(struct recorder *recorder, struct shard *shard, struct entry *entry,
		       const struct past *ending, struct freeing *freeing)
{
	bool known = !entry || entry->deferred;
	struct ledger_history *spare;

	if (!entry || !entry->block) {
		lock_give(&shard->lock);
		return known;
	}
	entry = prepare_history(recorder, shard, entry, freeing->key, &spare);
	known = entry && entry->block && entry->block->references > 1;
	if (known)
		count_down(recorder, entry->block, &spare, ending, freeing);
	unlock_retained(recorder, shard, spare);
	/* If not known, another thread removed references meanwhile: the free begins again. */
	return known || block_begin_free(recorder, shard, NULL, ending, freeing);
}

/* ---- being freed -> live ---- */

void block_undo_free(struct recorder *recorder, const struct freeing *freeing)
{
	struct shard *shard = shard_of(recorder, freeing->key);
	struct ledger_block *stale;
	struct entry *entry;
	bool ended = false;

	lock_take(&shard->lock);
	entry = entry_find(shard, freeing->key);
	if (entry && freeing->watched && entry->watched != freeing->watched) {
		ended = true; /* the driver reported the end although the call failed */
	} else if (entry && entry->block) {
		/* Another thread got the same handle meanwhile, by cuMemRetainAllocationHandle. So
		 * the handle has a new block, which gets the reference of this one. */
		entry->block->references++;
		ended = true;
	} else if (entry) {
		entry_revive(shard, entry, freeing->block, freeing->span, freeing->hint);
	} else if ((entry = entry_for(&recorder->arena, shard, freeing->key, NULL, &stale))) {
		/* The table forgot the entry, because so many other blocks ended meanwhile. */
		entry->block = freeing->block;
		entry->span = freeing->span;
		entry->hint = freeing->hint;
		entry->watched = freeing->watched;
		ledger_block_set(freeing->block, LEDGER_BLOCK_LIVE);
	}
	lock_give(&shard->lock);
	if (freeing->watched)
		deferred_add(-(int64_t)freeing->bytes);
	if (ended)
		block_drop(recorder, freeing->block, (int64_t)freeing->bytes);
}

void block_undo_left_free(struct recorder *recorder, const struct call_free *left)
{
	struct shard *shard = shard_of(recorder, left->key);
	struct ledger_block *block = left->block, *stale = NULL;
	bool gone = left->gone;
	struct entry *entry;

	lock_take(&shard->lock);
	entry = entry_find(shard, left->key);
	gone |= entry && (entry->block || entry->deferred);
	if (!gone && entry) {
		entry_revive(shard, entry, block, left->span, left->hint);
	} else if (!gone &&
		   (entry = entry_for(&recorder->arena, shard, left->key, NULL, &stale))) {
		entry->block = block;
		entry->span = left->span;
		entry->hint = left->hint;
		entry->watched = left->watched;
		ledger_block_set(block, LEDGER_BLOCK_LIVE);
	}
	lock_give(&shard->lock);
	if (left->watched)
		deferred_add(-(int64_t)block->bytes);
	if (gone)
		block_drop(recorder, block, (int64_t)block->bytes);
}

/* ---- being freed, live or released -> unused ---- */

void block_check_ended(struct recorder *recorder, const struct ledger_block *block, uint64_t bytes)
{
	const struct ledger_site *site = ledger_at(&recorder->writer, block->site);

	if (trace_is_on())
		trace_block(recorder, LEDGER_TRACE_FREED, block, bytes, recorder_time(recorder));
	if (limits_on() && LEDGER_BLOCK_STATE(block->state) != LEDGER_BLOCK_RELEASED)
		limits_block_changed(recorder, block->site, -(int64_t)bytes);
	if (!live_counts_physical(site))
		live_counts_remove(recorder, site, bytes);
}

void block_count_late(struct recorder *recorder, const struct ledger_block *block)
{
	struct ledger_site *site = ledger_at(&recorder->writer, block->site);

	shared_add(site->late, 1);
}

void block_drop(struct recorder *recorder, struct ledger_block *block, int64_t bytes)
{
	if (live_bytes_hidden(block) == LEDGER_HIDDEN_DEFERRED)
		live_bytes_rehide(recorder, block, bytes, LEDGER_HIDDEN_DEFERRED,
				  LEDGER_HIDDEN_NOT);
	block_drop_hot(recorder, block, bytes);
}

void block_drop_mappings(struct recorder *recorder, const struct freeing *freeing)
{
	struct mapped *mapped;
	struct shard *shard;

	/* atomically, because another thread may record an unmap */
	if (!(shared_load(freeing->block->marked) & LEDGER_BLOCK_MAPPED))
		return;
	shard = shard_of(recorder, freeing->key);
	lock_take(&shard->lock);
	mapped = mappings_take(recorder, shard, freeing->key, freeing->block);
	lock_give(&shard->lock);
	if (mapped)
		mappings_pass_on(recorder, mapped, key_beside(freeing->key, freeing->address,
							      freeing->block->parent));
}

bool block_end_live(struct recorder *recorder, uint64_t key, struct ledger_block *block,
		    const struct past *ending, struct past ret_past[2])
{
	struct shard *shard = shard_of(recorder, key);
	struct entry *entry;
	bool live;

	lock_take(&shard->lock);
	entry = entry_find(shard, key);
	live = entry && entry->block && entry->block == block;
	if (live) {
		entry_die(&recorder->arena, shard, entry, ending);
		if (entry->past)
			memcpy(ret_past, entry->past, 2 * sizeof(*ret_past));
	}
	lock_give(&shard->lock);
	if (live) {
		ipc_look_at_end(recorder, block, ending->freed_api, ending->freed_stack);
		block_drop(recorder, block, (int64_t)block->bytes);
	}
	return live;
}

/* Locking: the caller holds the lock of ENTRY's shard. */
static void end_with_context(struct recorder *recorder, struct shard *shard, struct entry *entry,
			     const struct past *ending)
{
	struct ledger_block *block = entry_die(&recorder->arena, shard, entry, ending);

	count_in_site(recorder, block->site, offsetof(struct ledger_site, with_context), 1);
	count_in_site(recorder, block->site, offsetof(struct ledger_site, with_context_bytes),
		      block->bytes);
	if (key_space(entry->key, block->address) < SPACE_OBJECT)
		context_ends_add(recorder, block, ending->freed_api, ending->freed_stack);
	ipc_look_at_end(recorder, block, ending->freed_api, ending->freed_stack);
	block_drop(recorder, block, (int64_t)block->bytes);
}

void block_end_with_context(struct recorder *recorder, uint64_t context,
			    const struct past *ending)
{
	HOLD(&recorder->context_ends->lock);
	for (unsigned int i = 0; i < BLOCK_SHARDS; i++) {
		struct shard *shard = &recorder->blocks->shard[i];

		HOLD(&shard->lock);
		/* entry_die() may remove the oldest dead entry from the table, but never the entry
		 * that dies. So the loop reads the next entry only afterwards. */
		FOR_ENTRIES(shard, entry)
			if (entry->block && entry->block->context == context)
				end_with_context(recorder, shard, entry, ending);
	}
	context_ends_write(recorder, ending->freed_api, ending->freed_stack);
}

/* ---- being freed -> released, or -> unused ---- */

/* The release of FREEING's block by EVENT has returned. Makes the block released and returns true.
 * Returns false if the driver reported the block's end on another thread. Returns false also if the
 * table forgot the entry, because many other blocks ended meanwhile: then the block counts as
 * ended. */
static bool defer(struct recorder *recorder, const struct freeing *freeing,
		  const struct ledger_reference *event)
{
	struct shard *shard = shard_of(recorder, freeing->key);
	struct ledger_block *block = freeing->block;
	struct ledger_history *spare;
	enum ledger_hidden hidden;
	struct entry *entry;
	bool deferred;

	/* before the shard's lock is taken, because history_take() may extend the ledger file */
	spare = block->history ? NULL : history_take(recorder);
	lock_take(&shard->lock);
	entry = entry_find(shard, freeing->key);
	deferred = entry && entry->watched == freeing->watched && !entry->block && !entry->deferred;
	if (deferred) {
		entry_unlink_dead(shard, entry);
		entry->deferred = block;
		entry->span = freeing->span;
		entry->hint = freeing->hint;
		note_reference(recorder, block, &spare, event);
		if (limits_on())
			limits_block_changed(recorder, block->site, -(int64_t)freeing->bytes);
		hidden = live_bytes_hidden(block);
		ledger_block_set(block, LEDGER_BLOCK_RELEASED);
		live_bytes_rehide(recorder, block, (int64_t)freeing->bytes, hidden,
				  live_bytes_hidden(block));
	}
	unlock_retained(recorder, shard, spare);
	if (deferred)
		deferred_sample(recorder);
	return deferred;
}

void block_end_watched(struct recorder *recorder, uint32_t api, const struct freeing *freeing,
		       uint64_t now_ns)
{
	const struct ledger_reference event = {
		.op = LEDGER_RELEASE, .api = api,
		.stack = freeing->stack, .time_ns = freeing->began_ns,
	};
	const struct past ending = {
		.site = freeing->block->site, .bytes = freeing->bytes,
		.freed_api = api, .freed_stack = freeing->stack, .freed_ns = freeing->began_ns,
	};

	if (!freeing->gone && defer(recorder, freeing, &event))
		return;
	block_drop_mappings(recorder, freeing);
	if (recorder_ending(recorder) == ENDING_DRIVER)
		block_count_late(recorder, freeing->block);
	deferred_end(recorder, &ending, now_ns, false);
	block_drop_hot(recorder, freeing->block, (int64_t)freeing->bytes);
}

/* ---- released or live -> unused ---- */

static void drop_destroyed(struct recorder *recorder, struct ledger_block *block,
			   struct past *ending)
{
	if (LEDGER_BLOCK_STATE(block->state) == LEDGER_BLOCK_RELEASED) {
		ending->bytes = block->bytes;
		deferred_end(recorder, ending, recorder_fine_time(recorder), true);
	} else {
		count_in_site(recorder, block->site, offsetof(struct ledger_site, unseen), 1);
	}
	block_drop(recorder, block, (int64_t)block->bytes);
}

/* Locking: the caller holds the lock of ENTRY's shard. Returns the block of ENTRY of which the
 * application holds references or mappings, or NULL. */
static const struct ledger_block *block_in_use(const struct entry *entry)
{
	const struct ledger_block *block = entry->deferred;

	if (entry->block)
		return entry->block;
	return block && (shared_load(block->marked) & LEDGER_BLOCK_MAPPED) ? block : NULL;
}

/* Locking: the caller holds CHILD's lock. No other function holds the locks of two shards. */
static void keep_parent(struct recorder *recorder, struct shard *child, uint64_t parent)
{
	struct shard *shard = shard_of(recorder, parent);
	struct entry *entry;

	if (shard != child)
		lock_take(&shard->lock);
	entry = entry_find(shard, parent);
	if (entry && entry->deferred)
		entry->watched = 0;
	if (shard != child)
		lock_give(&shard->lock);
}

void block_keep_parents(struct recorder *recorder)
{
	const struct ledger_block *block;

	for (unsigned int i = 0; i < BLOCK_SHARDS; i++) {
		struct shard *shard = &recorder->blocks->shard[i];

		HOLD(&shard->lock);
		FOR_ENTRIES(shard, entry) {
			block = entry->watched ? block_in_use(entry) : NULL;
			if (block && block->parent)
				keep_parent(recorder, shard,
					    key_beside(entry->key, block->address, block->parent));
		}
	}
}

void block_destroyed(struct recorder *recorder, uint64_t key, uint64_t watched)
{
	struct shard *shard = shard_of(recorder, key);
	struct ledger_block *block = NULL;
	struct mapped *mapped = NULL;
	struct past ending = { 0 };
	struct entry *entry;
	uint64_t parent_key = 0;

	lock_take(&shard->lock);
	entry = entry_find(shard, key);
	if (entry && entry->watched != watched)
		entry = NULL; /* reported late: another block has the handle now */
	if (entry && recorder_ending(recorder) != ENDING_NOT && block_in_use(entry)) {
		/* The driver destroys what is left. A later release has nothing to wait for. */
		entry->watched = 0;
		entry = NULL;
	}
	if (entry && (entry->deferred || entry->block)) {
		block = entry->deferred ? entry->deferred : entry->block;
		mapped = mappings_take(recorder, shard, key, block);
		parent_key = key_beside(key, block->address, block->parent);
	}
	if (entry && entry->deferred) {
		if (entry->past)
			ending = entry->past[0];
		entry->deferred = NULL;
		entry_link_dead(&recorder->arena, shard, entry);
	} else if (block) {
		entry_die(&recorder->arena, shard, entry, &ending);
	} else if (entry) {
		entry->watched = 0; /* a thread is freeing the block: see defer() */
	}
	lock_give(&shard->lock);
	if (mapped)
		mappings_pass_on(recorder, mapped, parent_key);
	if (block)
		drop_destroyed(recorder, block, &ending);
}
