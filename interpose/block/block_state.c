/* SPDX-License-Identifier: MIT
 *
 * Owns every change of a block's state, in the table and in the ledger:
 *
 *              block_insert              block_begin_free
 *     unused ---------------> live ---------------------------> being freed
 *       ^                     | ^ ^       block_undo_free         |  |
 *       |                     | | +-------------------------------+  |
 *       |                     | |                                    |
 *       |  the driver reports | | block_retain      block_defer      |
 *       |  an unseen end, or  | +------------- released <------------+
 *       |  its context ends   |                    |                 |
 *       |                     |                    | block_destroyed |
 *       +---------------------+--------------------+-----------------+
 *         block_drop                                  the driver accepted the free
 *
 * A block that is being freed is out of the table, since the driver may give its address to another
 * thread at once. Watched blocks (OpenCL calls back at their end) stay in the table as `held`.
 * Must not call the driver. Holds a shard's lock for table work only.
 */
#include "interpose/block/block_state.h"

#include <string.h>

#include "interpose/block/block_state_hot.h"
#include "interpose/recorder/ipc.h"
#include "interpose/recorder/live_counts.h"
#include "interpose/block/mappings.h"

/* ---- references ---- */

/* Locking: the caller holds the shard's lock. Adds EVENT to BLOCK's history. A block without one
 * gets *SPARE, see prepare_history(). Returns what history_remove() takes. */
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

/* Locking: the caller holds the shard's lock. Takes one of several references of BLOCK. SPARE: see
 * prepare_history(). */
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

/* Locking: the caller holds the lock of SHARD. ENTRY is KEY's, or NULL. If its block has no history
 * yet, *RET_SPARE gets a new one. It is allocated without the lock, because the ledger may have to
 * grow. Returns KEY's entry then. */
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
	int64_t revived = 0;
	bool known;

	lock_take(&shard->lock);
	entry = prepare_history(recorder, shard, entry_find(shard, key), key, &spare);
	known = entry && (entry->block || entry->deferred);
	if (entry && entry->deferred) {
		revived = (int64_t)entry->deferred->bytes;
		entry_revive(shard, entry, entry->deferred);
		note_reference(recorder, entry->block, &spare, event);
	} else if (known) {
		entry->block->references++;
		note_reference(recorder, entry->block, &spare, event);
	}
	unlock_retained(recorder, shard, spare);
	if (revived)
		deferred_add(recorder, -revived);
	return known;
}

int64_t block_add_references(struct recorder *recorder, uint64_t key, int64_t by)
{
	struct shard *shard = shard_of(recorder, key);
	struct entry *entry;

	lock_take(&shard->lock);
	entry = entry_find(shard, key);
	if (!entry || !entry->block)
		by = 0;
	else if (by < 1 - (int64_t)entry->block->references)
		by = 1 - (int64_t)entry->block->references;
	if (by)
		entry->block->references = (uint32_t)(entry->block->references + by);
	lock_give(&shard->lock);
	return by;
}

/* ---- live -> being freed ---- */

void block_begin_watched(struct recorder *recorder, struct entry *entry, struct past *ending,
			 struct freeing *freeing)
{
	freeing->watched = true;
	freeing->use = entry->block->state >> 8;
	ending->freed_ns = freeing->since_ns = recorder_fine_time(recorder);
	entry->deferred = entry_end(&recorder->arena, entry, ending);
	thread_self.releasing = (struct releasing){
		entry, freeing->block, entry->watched, false,
	};
	deferred_add(recorder, (int64_t)freeing->bytes);
}

bool block_begin_other(struct recorder *recorder, struct shard *shard, struct entry *entry,
		       const struct past *ending, struct freeing *freeing)
{
	bool known = !entry || entry->deferred;
	struct ledger_history *spare;
	struct past last;

	if (!entry || !entry->block) {
		lock_give(&shard->lock);
		return known;
	}
	entry = prepare_history(recorder, shard, entry, freeing->key, &spare);
	known = entry && entry->block && entry->block->references > 1;
	if (known)
		count_down(recorder, entry->block, &spare, ending, freeing);
	unlock_retained(recorder, shard, spare);
	if (known)
		return true;
	last = *ending; /* another thread released meanwhile */
	return block_begin_free(recorder, shard, NULL, &last, freeing);
}

/* ---- being freed -> live ---- */

/* Locking: the caller holds the shard's lock. Returns true if ENTRY has FREEING's block, watched,
 * and the application has not retained it again. */
static bool is_deferred(const struct entry *entry, const struct freeing *freeing)
{
	return entry && entry->deferred && entry->deferred == freeing->block &&
	       entry->deferred->state >> 8 == freeing->use;
}

bool block_is_deferred(struct recorder *recorder, const struct freeing *freeing)
{
	struct shard *shard = shard_of(recorder, freeing->key);
	bool deferred;

	lock_take(&shard->lock);
	deferred = is_deferred(entry_find(shard, freeing->key), freeing);
	lock_give(&shard->lock);
	return deferred;
}

void block_undo_free(struct recorder *recorder, const struct freeing *freeing)
{
	struct shard *shard = shard_of(recorder, freeing->key);
	bool retained, revived = false;
	struct ledger_block *stale;
	struct entry *entry;

	lock_take(&shard->lock);
	entry = entry_find(shard, freeing->key);
	/* Another thread got the handle again meanwhile: see cuMemRetainAllocationHandle. */
	retained = entry && entry->block && !freeing->watched;
	if (retained) {
		entry->block->references++;
	} else if (entry) {
		revived = !entry->block && (!freeing->watched || is_deferred(entry, freeing));
		if (revived)
			entry_revive(shard, entry, freeing->block);
	} else if ((entry = entry_for(&recorder->arena, shard, freeing->key, NULL, &stale))) {
		/* The table forgot the entry, because so many other blocks ended meanwhile. */
		entry->block = freeing->block;
		entry->span = freeing->span;
		ledger_block_set(freeing->block, LEDGER_BLOCK_LIVE);
	}
	lock_give(&shard->lock);
	if (retained)
		block_drop(recorder, freeing->block, (int64_t)freeing->bytes);
	if (revived && freeing->watched)
		deferred_add(recorder, -(int64_t)freeing->bytes);
}

void block_undo_left_free(struct recorder *recorder, uint64_t key, struct ledger_block *block)
{
	struct shard *shard = shard_of(recorder, key);
	struct ledger_block *stale = NULL;
	struct entry *entry;
	bool gone;

	lock_take(&shard->lock);
	entry = entry_find(shard, key);
	gone = entry && (entry->block || entry->deferred);
	if (!gone && entry) {
		entry_revive(shard, entry, block);
	} else if (!gone && (entry = entry_for(&recorder->arena, shard, key, NULL, &stale))) {
		entry->block = block;
		entry->span = block->bytes;
		ledger_block_set(block, LEDGER_BLOCK_LIVE);
	}
	lock_give(&shard->lock);
	if (gone)
		block_drop(recorder, block, (int64_t)block->bytes);
}

/* ---- being freed, live or released -> unused ---- */

void block_check_ended(struct recorder *recorder, const struct ledger_block *block, uint64_t bytes)
{
	struct ledger_live_series *series = live_counts_of_ending(recorder, block);

	if (limits_on())
		limits_block_ended(recorder, block->site, bytes);
	if (series)
		live_series_remove_shared(series, live_amount(bytes));
}

void block_drop(struct recorder *recorder, struct ledger_block *block, int64_t bytes)
{
	block_drop_hot(recorder, block, bytes);
}

void block_drop_mappings(struct recorder *recorder, const struct freeing *freeing)
{
	struct shard *shard = shard_of(recorder, freeing->key);
	struct mapped *mapped;

	if (!(freeing->block->marked & LEDGER_BLOCK_MAPPED))
		return;
	lock_take(&shard->lock);
	mapped = mappings_take(recorder, shard, freeing->key, freeing->block);
	lock_give(&shard->lock);
	if (mapped)
		mappings_pass_on(recorder, mapped,
				 key_in(space_of(freeing->key), freeing->block->parent));
}

/* The memory of BLOCK is gone, WAIT_NS after its last release by the call that ENDING describes.
 * WAS_DEFERRED: the release had returned before. */
static void drop_released(struct recorder *recorder, struct ledger_block *block,
			  const struct past *ending, uint64_t wait_ns, bool was_deferred)
{
	bool waited = was_deferred || wait_ns >= DEFERRED_WAIT_NS;

	if (waited && !was_deferred)
		deferred_sample(recorder); /* the driver waited inside the call */
	deferred_add(recorder, -(int64_t)block->bytes);
	block_drop_hot(recorder, block, (int64_t)block->bytes);
	if (waited) {
		deferred_sample(recorder);
		deferred_note_wait(recorder, ending, wait_ns);
	}
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

void block_end_with_context(struct recorder *recorder, uint64_t context,
			    const struct past *ending)
{
	for (unsigned int i = 0; i < BLOCK_SHARDS; i++) {
		struct shard *shard = &recorder->blocks->shard[i];
		struct ledger_block *block;

		lock_take(&shard->lock);
		/* An entry that dies may push another dead entry out of the table, never itself.
		 * So the loop reads the next entry only afterwards. */
		for (struct entry *entry = shard->entries; entry; entry = entry->hh.next) {
			if (!entry->block || entry->block->context != context)
				continue;
			block = entry_die(&recorder->arena, shard, entry, ending);
			count_in_site(recorder, block->site,
				      offsetof(struct ledger_site, with_context), 1);
			count_in_site(recorder, block->site,
				      offsetof(struct ledger_site, with_context_bytes),
				      block->bytes);
			ipc_look_at_end(recorder, block, ending->freed_api,
					ending->freed_stack);
			block_drop(recorder, block, (int64_t)block->bytes);
		}
		lock_give(&shard->lock);
	}
}

/* ---- being freed -> released, or -> unused ---- */

/* Returns true if the driver reported the end inside the call, on this thread. */
static bool has_called_back(const struct freeing *freeing)
{
	struct releasing *releasing = &thread_self.releasing;
	bool gone = releasing->gone && releasing->block == freeing->block;

	*releasing = (struct releasing){ 0 };
	return gone;
}

/* Returns true if the driver reported the end inside the call, on another thread. NVIDIA's driver
 * reports at once and then waits for the commands that use the memory. */
static bool has_gone(const struct entry *entry, const struct freeing *freeing)
{
	return !is_deferred(entry, freeing) &&
	       freeing->block->state == (freeing->use << 8 | LEDGER_BLOCK_RELEASED);
}

static void end_released(struct recorder *recorder, uint32_t api, const struct freeing *freeing)
{
	struct past ending = {
		.site = freeing->block->site,
		.bytes = freeing->block->bytes,
		.freed_api = api,
		.freed_stack = freeing->stack,
	};

	drop_released(recorder, freeing->block, &ending,
		      recorder_fine_time(recorder) - freeing->since_ns, false);
}

/* Returns FREEING's entry with its shard locked. *RET_SPARE gets a new history if the block is
 * still deferred and has no history. */
static struct entry *lock_deferred(struct recorder *recorder, struct shard *shard,
				   const struct freeing *freeing,
				   struct ledger_history **ret_spare)
{
	struct entry *entry;

	*ret_spare = NULL;
	for (bool tried = false;; tried = true) {
		lock_take(&shard->lock);
		entry = entry_find(shard, freeing->key);
		if (tried || !is_deferred(entry, freeing) || entry->deferred->history)
			return entry;
		lock_give(&shard->lock);
		/* without the shard's lock, because it may extend the ledger file */
		*ret_spare = history_take(recorder);
	}
}

void block_defer(struct recorder *recorder, uint32_t api, const struct freeing *freeing)
{
	struct ledger_reference event = {
		.op = LEDGER_RELEASE, .api = api,
		.stack = freeing->stack, .time_ns = freeing->since_ns,
	};
	struct ledger_history *spare;
	struct shard *shard;
	struct entry *entry;
	bool deferred, gone;

	if (has_called_back(freeing)) {
		end_released(recorder, api, freeing);
		return;
	}
	shard = shard_of(recorder, freeing->key);
	entry = lock_deferred(recorder, shard, freeing, &spare);
	deferred = is_deferred(entry, freeing);
	gone = has_gone(entry, freeing);
	if (deferred) {
		note_reference(recorder, entry->deferred, &spare, &event);
		ledger_block_set(entry->deferred, LEDGER_BLOCK_RELEASED);
	}
	unlock_retained(recorder, shard, spare);
	if (deferred)
		deferred_sample(recorder);
	if (gone)
		end_released(recorder, api, freeing);
}

/* ---- released -> unused ---- */

/* Locking: the caller holds the shard's lock. Ends the released block of ENTRY and returns it. If
 * its release is still under way in a thread, that thread ends it: returns NULL. */
static struct ledger_block *end_held(struct recorder *recorder, struct shard *shard,
				     struct entry *entry, bool own_thread)
{
	struct ledger_block *block = entry->deferred;

	if (LEDGER_BLOCK_STATE(block->state) != LEDGER_BLOCK_RELEASED) {
		ledger_block_set(block, LEDGER_BLOCK_RELEASED);
		thread_self.releasing.gone = own_thread && block == thread_self.releasing.block;
		block = NULL;
	}
	entry->deferred = NULL;
	entry_link_dead(&recorder->arena, shard, entry);
	return block;
}

static void drop_destroyed(struct recorder *recorder, struct ledger_block *block,
			   const struct past *ending)
{
	uint64_t now = recorder_fine_time(recorder);

	if (LEDGER_BLOCK_STATE(block->state) == LEDGER_BLOCK_RELEASED) {
		drop_released(recorder, block, ending,
			      now > ending->freed_ns ? now - ending->freed_ns : 0, true);
		return;
	}
	count_in_site(recorder, block->site, offsetof(struct ledger_site, unseen), 1);
	block_drop(recorder, block, (int64_t)block->bytes);
}

void block_destroyed(struct recorder *recorder, struct shard *shard, uint64_t key,
		     uint64_t watched)
{
	struct releasing *releasing = &thread_self.releasing;
	struct entry *hint = releasing->watched == watched ? releasing->entry : NULL;
	struct ledger_block *block = NULL;
	struct mapped *mapped = NULL;
	struct past ending = { 0 };
	struct entry *entry;
	uint64_t parent = 0;

	lock_take(&shard->lock);
	entry = entry_known(shard, key, hint);
	if (entry && entry->watched != watched)
		entry = NULL; /* reported late: another block has the handle now */
	if (entry && (entry->deferred || entry->block)) {
		block = entry->deferred ? entry->deferred : entry->block;
		mapped = mappings_take(recorder, shard, key, block);
		parent = block->parent;
	}
	if (entry && entry->deferred) {
		if (entry->past)
			ending = entry->past[0];
		block = end_held(recorder, shard, entry, hint != NULL);
	} else if (block) {
		entry_die(&recorder->arena, shard, entry, &ending);
	}
	lock_give(&shard->lock);
	if (mapped)
		mappings_pass_on(recorder, mapped, key_in(space_of(key), parent));
	if (block)
		drop_destroyed(recorder, block, &ending);
}
