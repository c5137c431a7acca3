/* SPDX-License-Identifier: MIT
 *
 * The table of blocks: what is made, taken out, put back, freed. Owns its entries and the
 * order of things around a free; must not call the driver, and holds a shard's lock only for
 * table work, never while unwinding, writing stacks or calling out.
 */
#include "interpose/block/block_table.h"

#include <string.h>

#include "interpose/block/queries.h"
#include "interpose/recorder/driver_call.h"
#include "interpose/block/error_record.h"
#include "interpose/dispatch/variants.h"
#include "interpose/recorder/thread_state_hot.h"
#include "interpose/stack/unwinder.h"

#define ENTRY_SLAB 4096u

/* ---- entries and their death list; all with the shard's lock ---- */

/* See entry_is(). */
static void set_key(struct entry *entry, uint64_t key)
{
	__atomic_store_n(&entry->key, key, __ATOMIC_RELAXED);
}

static COLD struct entry *take_entry(struct arena *arena, struct shard *shard)
{
	struct entry *entry = shard->spare;

	if (!entry) {
		struct entry *slab = arena_take(arena, ENTRY_SLAB);

		for (size_t i = 0; slab && i < ENTRY_SLAB / sizeof(*slab); i++) {
			slab[i].older = shard->spare;
			shard->spare = &slab[i];
		}
		entry = shard->spare;
	}
	if (entry) {
		shard->spare = entry->older;
		memset(&entry->block, 0, sizeof(*entry) - offsetof(struct entry, block));
	}
	return entry;
}

static HOT void unlink_dead(struct shard *shard, struct entry *entry)
{
	if (entry->older)
		entry->older->newer = entry->newer;
	else
		shard->oldest = entry->newer;
	if (entry->newer)
		entry->newer->older = entry->older;
	else
		shard->newest = entry->older;
	entry->older = entry->newer = NULL;
	shard->dead--;
}

static COLD void forget(struct arena *arena, struct shard *shard, struct entry *entry)
{
	HASH_DEL(shard->entries, entry);
	if (entry->past)
		arena_give(arena, entry->past, 2 * sizeof(*entry->past));
	set_key(entry, 0);
	memset(&entry->block, 0, sizeof(*entry) - offsetof(struct entry, block));
	entry->older = shard->spare;
	shard->spare = entry;
}

static HOT void link_dead(struct arena *arena, struct shard *shard, struct entry *entry)
{
	entry->older = shard->newest;
	entry->newer = NULL;
	if (shard->newest)
		shard->newest->newer = entry;
	else
		shard->oldest = entry;
	shard->newest = entry;
	if (++shard->dead > BLOCK_PAST_MAX) {
		struct entry *oldest = shard->oldest;

		unlink_dead(shard, oldest);
		forget(arena, shard, oldest);
	}
}

void entry_link_dead(struct arena *arena, struct shard *shard, struct entry *entry)
{
	link_dead(arena, shard, entry);
}

static COLD struct entry *entry_new(struct arena *arena, struct shard *shard, uint64_t key)
{
	struct entry *entry = take_entry(arena, shard);

	if (!entry)
		return NULL;
	set_key(entry, key);
	TABLE_ADD(shard->entries, key, entry);
	if (entry->hh.tbl)
		return entry;
	set_key(entry, 0); /* uthash found no memory */
	entry->older = shard->spare;
	shard->spare = entry;
	return NULL;
}

/* KEY's entry with no live block in it; NULL if there is no memory. *RET_STALE gets a block
 * that was still there. HINT: see entry_is(). */
static HOT struct entry *entry_for(struct arena *arena, struct shard *shard, uint64_t key,
				   struct entry *hint, struct ledger_block **ret_stale)
{
	struct entry *entry = entry_known(shard, key, hint);

	*ret_stale = NULL;
	if (entry && (entry->block || entry->held)) {
		*ret_stale = entry->block ? entry->block : entry->held;
		entry->block = entry->held = NULL;
		return entry;
	}
	if (!entry)
		return entry_new(arena, shard, key);
	unlink_dead(shard, entry);
	return entry;
}

/* The live block leaves ENTRY and becomes its newest past. */
static HOT struct ledger_block *entry_end(struct arena *arena, struct entry *entry,
					  const struct past *ending)
{
	struct ledger_block *block = entry->block;

	if (!entry->past)
		entry->past = arena_take(arena, 2 * sizeof(*entry->past));
	if (entry->past) {
		entry->past[1] = entry->past[0];
		entry->past[0] = *ending;
		entry->past[0].row = block->row;
		entry->past[0].bytes = entry->span;
		entry->past[0].made_ns = block->time_ns;
	}
	entry->block = NULL;
	return block;
}

static HOT struct ledger_block *die(struct arena *arena, struct shard *shard, struct entry *entry,
				    const struct past *ending)
{
	struct ledger_block *block = entry_end(arena, entry, ending);

	link_dead(arena, shard, entry);
	return block;
}

struct ledger_block *entry_die(struct arena *arena, struct shard *shard, struct entry *entry,
			       const struct past *ending)
{
	return die(arena, shard, entry, ending);
}

void entry_revive(struct shard *shard, struct entry *entry, struct ledger_block *block)
{
	if (entry->held)
		entry->held = NULL;
	else
		unlink_dead(shard, entry);
	entry->block = block;
	if (entry->past) {
		entry->past[0] = entry->past[1];
		memset(&entry->past[1], 0, sizeof(entry->past[1]));
	}
	ledger_block_set(block, LEDGER_BLOCK_LIVE);
}

/* ---- slots ---- */

static HOT void drop(struct recorder *recorder, struct ledger_block *block, int64_t bytes)
{
	struct stripe *stripe = thread_self.stripe;
	uint32_t history = block->history;

	stripe_lock(stripe);
	stripe_live_add(recorder, stripe, -bytes, 0);
	if (__builtin_expect(atomic_load_explicit(&limits_on, memory_order_relaxed), 0))
		limits_block_ended(recorder, block->row, (uint64_t)bytes);
	stripe_give_slot(recorder, stripe, block);
	stripe_unlock(stripe);
	if (history) /* only now: a reader must not find it with a live block */
		history_give(recorder, ledger_at(&recorder->writer, history));
}

void block_drop(struct recorder *recorder, struct ledger_block *block, int64_t bytes)
{
	drop(recorder, block, bytes);
}

/* ---- what is there ---- */

bool block_live(struct recorder *recorder, uint64_t key, struct ledger_block *ret)
{
	struct shard *shard = shard_of(recorder, key);
	struct entry *entry;
	bool live;

	lock_take(&shard->lock);
	entry = entry_find(shard, key);
	live = entry && entry->block;
	if (live)
		entry_tell(entry, ret);
	lock_give(&shard->lock);
	return live;
}

bool record_is_live(const struct site *site, uint64_t address)
{
	struct recorder *recorder = recorder_enter();
	struct ledger_block block;
	bool live;

	if (!recorder)
		return false;
	live = block_live(recorder, key_of(site, address), &block);
	recorder_leave();
	return live;
}

int record_device_of(uint64_t address)
{
	struct recorder *recorder = recorder_enter();
	struct ledger_block block;
	int device = -1;

	if (!recorder)
		return -1;
	if (block_live(recorder, key_in(SPACE_MEMORY, address), &block))
		device = ((const struct ledger_row *)ledger_at(&recorder->writer,
							       block.row))->device;
	recorder_leave();
	return device;
}

uint64_t record_name_of(struct recorder *recorder, enum api api, uint64_t handle)
{
	uint64_t key = key_of_object(api, handle);
	struct shard *shard = shard_of(recorder, key);
	const struct ledger_block *block;
	struct entry *entry;
	uint64_t name = 0;

	if (!handle)
		return 0;
	lock_take(&shard->lock);
	entry = entry_find(shard, key);
	block = !entry ? NULL : entry->block ? entry->block : entry->held;
	if (block)
		name = ledger_block_name(block->state, ledger_ref(&recorder->writer, block));
	lock_give(&shard->lock);
	return name;
}

/* ---- allocation ---- */

static COLD void not_recorded(struct recorder *recorder, uint64_t bytes)
{
	ledger_trouble(recorder->header, LEDGER_TROUBLE_UNRECORDED_BLOCKS, 1);
	ledger_trouble(recorder->header, LEDGER_TROUBLE_UNRECORDED_BYTES, bytes);
}

static HOT void fill(struct recorder *recorder, struct ledger_block *block,
		     const struct ledger_row *row, const struct ledger_block *facts)
{
	uint32_t state = block->state;

	*block = *facts;
	block->state = state;
	block->row = ledger_ref(&recorder->writer, row);
	block->references = 1;
	block->thread = thread_self.thread;
	block->marked = ask_marked();
	ledger_block_publish(block);
}

/* A block that should have been gone: either the driver called its own exported name
 * inside the present call (then that record is replaced by this one), or it ended by a
 * call that we did not see. */
static COLD void settle_stale(struct recorder *recorder, struct ledger_block *stale)
{
	struct ledger_row *row = ledger_at(&recorder->writer, stale->row);

	if (LEDGER_BLOCK_STATE(stale->state) != LEDGER_BLOCK_LIVE) {
		released_add(recorder, -(int64_t)stale->bytes); /* a release that was known */
	} else if (thread_self.nested == stale->address) {
		__atomic_fetch_sub(&row->allocs, 1, __ATOMIC_RELAXED);
		__atomic_fetch_sub(&row->bytes, stale->bytes, __ATOMIC_RELAXED);
	} else {
		__atomic_fetch_add(&row->unseen, 1, __ATOMIC_RELAXED);
		ledger_trouble(recorder->header, LEDGER_TROUBLE_STALE_BLOCKS, 1);
	}
	block_drop(recorder, stale, (int64_t)stale->bytes);
}

enum placed { PLACED, PLACED_REFERENCE, PLACED_NOWHERE };

struct number {
	uint64_t key, span;
	bool shared;
	uint64_t watched;
	const uint32_t *stack; /* where it was made; NULL = by the call under way */
	struct standing *standing; /* of a pooled block */
};

/* What is live under that number gets one more reference if it is shared, and gives way if
 * not. */
static HOT enum placed put_in_table(struct recorder *recorder, struct shard *shard,
				    const struct number *number, struct ledger_block *block)
{
	struct standing *standing = number->standing;
	struct ledger_block *stale = NULL;
	struct entry *entry;

	lock_take(&shard->lock);
	entry = number->shared ? entry_find(shard, number->key) : NULL;
	if (entry && entry->block) {
		entry->block->references++;
		lock_give_soon(&shard->lock);
		return PLACED_REFERENCE;
	}
	entry = entry_for(&recorder->arena, shard, number->key, standing_entry(standing),
			  &stale);
	if (entry) {
		entry->block = block;
		entry->span = number->span;
		entry->watched = number->watched;
		entry->standing = standing;
	}
	if (entry && standing) {
		__atomic_store_n(&standing->entry, entry, __ATOMIC_RELAXED);
		atomic_store_explicit(&standing->recorded, true, memory_order_relaxed);
	}
	lock_give_soon(&shard->lock);
	if (stale)
		settle_stale(recorder, stale);
	return entry ? PLACED : PLACED_NOWHERE;
}

/* BLOCK found no place in the table. */
static COLD void unmade(struct recorder *recorder, struct ledger_block *block,
			struct ledger_row *row, uint64_t bytes)
{
	__atomic_fetch_sub(&row->allocs, 1, __ATOMIC_RELAXED);
	__atomic_fetch_sub(&row->bytes, bytes, __ATOMIC_RELAXED);
	block_drop(recorder, block, (int64_t)bytes);
}

static HOT struct ledger_block *made(struct recorder *recorder, const struct site *site,
				     const struct number *number,
				     const struct ledger_block *facts, int device)
{
	enum placed placed = PLACED_NOWHERE;
	struct shard *shard = shard_of(recorder, number->key);
	struct stripe *stripe = thread_self.stripe;
	struct ledger_block *block = NULL;
	struct ledger_row *row;

	entry_soon(shard, standing_entry(number->standing));
	stripe_lock(stripe);
	row = stripe_row(recorder, stripe,
			 number->stack ? *number->stack
				       : stack_of(recorder, stripe, site->caller),
			 site->hook, device);
	if (row)
		block = stripe_take_slot(recorder, stripe);
	if (block) {
		fill(recorder, block, row, facts);
		__atomic_store_n(&row->bytes, row->bytes + facts->bytes, __ATOMIC_RELAXED);
		__atomic_store_n(&row->allocs, row->allocs + 1, __ATOMIC_RELEASE);
		stripe_live_add(recorder, stripe, (int64_t)facts->bytes, facts->time_ns);
		if (__builtin_expect(atomic_load_explicit(&limits_on, memory_order_relaxed), 0))
			limits_block_made(recorder, site->hook, device, facts->bytes);
	}
	stripe_unlock(stripe);
	if (block) {
		placed = put_in_table(recorder, shard, number, block);
		if (placed == PLACED)
			return block;
		unmade(recorder, block, row, facts->bytes);
	}
	if (placed == PLACED_NOWHERE)
		not_recorded(recorder, facts->bytes);
	return NULL;
}

/* Dates FACTS, too. */
static HOT struct ledger_block *record_now(const struct site *site, const struct number *number,
					   struct ledger_block *facts, int device)
{
	struct recorder *recorder = recorder_resume(facts->address);
	struct ledger_block *block;

	if (!recorder) {
		recorder_missed();
		return NULL;
	}
	facts->time_ns = stripes_now(recorder);
	block = made(recorder, site, number, facts, device);
	if (facts->time_ns >= atomic_load_explicit(&recorder->writer.timeline.due_ns,
						  memory_order_relaxed)) {
		ledger_add_sample(&recorder->writer, &recorder->writer.timeline, facts->time_ns,
				  (uint64_t)stripes_live(recorder));
		timeline_look(recorder, facts->time_ns);
	}
	thread_self.nested = thread_self.call_frame ? facts->address : 0;
	recorder_leave();
	return block;
}

static struct ledger_block *record(const struct site *site, const struct number *number,
				   struct ledger_block *facts, int device)
{
	return record_now(site, number, facts, device);
}

struct ledger_block *record_block(const struct site *site, uint64_t number, uint64_t span,
				  const struct ledger_block *facts, int device, bool shared)
{
	const struct number what = {
		key_of(site, number), span, shared, site->watched, NULL, NULL
	};
	struct ledger_block dated = *facts;

	return number ? record(site, &what, &dated, device) : NULL;
}

void record_made(const struct site *site, uint64_t address, uint64_t bytes, uint64_t context,
		 int device, uint64_t parent)
{
	const struct number what = {
		key_of(site, address), bytes, false, site->watched, NULL, NULL,
	};
	struct ledger_block facts = {
		.address = address, .bytes = bytes, .context = context, .parent = parent,
	};

	if (address)
		record_now(site, &what, &facts, device);
}

HOT_CALL void record_made_pooled(const struct site *site, uint64_t address, uint64_t bytes)
{
	const struct number what = {
		key_in(SPACE_MEMORY, address), bytes, false, 0, NULL, thread_self.standing,
	};
	struct ledger_block facts = {
		.address = address, .bytes = bytes, .context = thread_self.owner,
	};

	record_now(site, &what, &facts, thread_self.device);
}

uint32_t record_origin(const struct site *site)
{
	struct recorder *recorder = recorder_enter();
	uint32_t stack;

	if (!recorder)
		return 0;
	stack = origin_of(recorder, site->caller);
	recorder_leave();
	return stack;
}

void record_made_from(const struct site *site, uint32_t stack, uint64_t address, uint64_t bytes,
		      int device)
{
	struct ledger_block facts = { .address = address, .bytes = bytes };
	const struct number what = { key_of(site, address), bytes, false, 0, &stack, NULL };

	if (address)
		record(site, &what, &facts, device);
}

/* The driver's call that was to free BLOCK never returned. If its number is another block's by
 * now the driver did free it; otherwise it is still there. */
static void settle_left(struct recorder *recorder, uint64_t key, struct ledger_block *block)
{
	struct shard *shard = shard_of(recorder, key);
	struct ledger_block *stale = NULL;
	struct entry *entry;
	bool gone;

	lock_take(&shard->lock);
	entry = entry_find(shard, key);
	gone = entry && (entry->block || entry->held);
	if (!gone && entry) {
		entry_revive(shard, entry, block);
	} else if (!gone && (entry = entry_for(&recorder->arena, shard, key, NULL, &stale))) {
		entry->block = block;
		entry->span = block->bytes;
		ledger_block_set(block, LEDGER_BLOCK_LIVE);
	}
	lock_give(&shard->lock);
	if (gone)
		drop(recorder, block, (int64_t)block->bytes);
}

void record_calls_end(void)
{
	struct ledger_block *block = thread_self.call_block;
	struct recorder *recorder;

	thread_self.call_frame = 0;
	thread_self.call_block = NULL;
	thread_self.nested = 0;
	slots_inside = (struct inside){ 0 };
	limits_done();
	recorder = recorder_now();
	if (!block || !recorder || thread_self.generation != recorder->generation ||
	    !(recorder = recorder_enter()))
		return;
	settle_left(recorder, thread_self.call_key, block);
	recorder_leave();
}

void record_call_left(const uintptr_t *frame)
{
	const uintptr_t *at = (const uintptr_t *)thread_self.call_frame + CALL_RETURN_WORD;
	int saved = errno;

	if (recorder_was_left(thread_self.call_frame, (uintptr_t)frame) ||
	    !unwinder_can_read(at) || *at != thread_self.call_return)
		record_calls_end();
	errno = saved;
}

/* ---- free ---- */

static HOT void begin(struct recorder *recorder, const struct site *site, struct freeing *ret,
		      struct past *ret_ending)
{
	ret->stack = origin_of(recorder, site->caller);
	thread_self.now_ns = stripes_now(recorder);
	*ret_ending = (struct past){
		.freed_api = recorder_name_ref(recorder, site->hook),
		.freed_stack = ret->stack,
		.freed_ns = thread_self.now_ns,
	};
}

/* A watched block waits in the table for its end, which may come inside the driver's call
 * or long after it; any other is out of it before the call. */
static HOT void take_last(struct recorder *recorder, struct shard *shard, struct entry *entry,
			  struct past *ending, struct freeing *ret)
{
	ret->block = entry->block;
	ret->bytes = __atomic_load_n(&entry->block->bytes, __ATOMIC_RELAXED);
	ret->span = entry->span;
	ret->standing = entry->standing;
	ledger_block_set(entry->block, LEDGER_BLOCK_FREEING);
	if (entry->watched) {
		ret->watched = true;
		ret->use = entry->block->state >> 8;
		ending->freed_ns = ret->since_ns = released_now(recorder);
		entry->held = entry_end(&recorder->arena, entry, ending);
		thread_self.releasing = (struct releasing){
			entry, ret->block, entry->watched, false,
		};
	} else {
		die(&recorder->arena, shard, entry, ending);
	}
}

/* KNOWN: see record_freeing_pooled(); or NULL. */
static HOT struct recorder *take(const struct site *site, uint64_t address,
				 const struct standing *known, struct freeing *ret)
{
	struct entry *hint = standing_entry(known);
	struct ledger_history *spare;
	struct recorder *recorder;
	struct shard *shard;
	struct entry *entry;
	struct past ending;
	uint64_t key;

	/* In two parts that gcc 12 clears without a loop. */
	memset(ret, 0, offsetof(struct freeing, since_ns));
	ret->since_ns = 0;
	if (!address)
		return NULL;
	recorder = recorder_enter();
	if (!recorder) {
		recorder_missed();
		return NULL;
	}
	ret->recorder = recorder;
	key = key_of(site, address);
	ret->address = address;
	ret->key = key;
	shard = shard_of(recorder, key);
	entry_soon(shard, hint);
	begin(recorder, site, ret, &ending);
	entry = entry_lock(recorder, shard, key, hint, 2, &spare);
	if (entry && entry->block && entry->block->references > 1) {
		references_count_down(recorder, entry->block, &spare, &ending, ret);
	} else if (entry && entry->block) {
		take_last(recorder, shard, entry, &ending, ret);
	} else if (entry && !entry->held && site->space == SPACE_MEMORY) {
		entry_unlock(recorder, shard, spare);
		rivals_begin(recorder, ret, &ending);
		return recorder;
	}
	entry_unlock(recorder, shard, spare);
	if (ret->watched)
		released_add(recorder, (int64_t)ret->bytes);
	return recorder;
}

struct recorder *block_take(const struct site *site, uint64_t address, struct freeing *ret)
{
	return take(site, address, NULL, ret);
}

void record_freeing(const struct site *site, uint64_t address, struct freeing *ret)
{
	if (!block_take(site, address, ret))
		return;
	thread_self.standing = ret->standing;
	recorder_leave();
}

HOT_CALL void record_freeing_pooled(const struct site *site, uint64_t address,
				    const struct standing *known, struct freeing *ret)
{
	if (!take(site, address, known, ret)) /* then the pool can't enter either */
		return;
	thread_self.standing = ret->standing;
	if (ret->standing)
		recorder_stay(ret->recorder, address);
	else
		recorder_leave();
}

void block_put_back(struct recorder *recorder, const struct freeing *freeing)
{
	struct shard *shard = shard_of(recorder, freeing->key);
	struct ledger_block *stale;
	struct entry *entry;
	bool again, revived = false;

	lock_take(&shard->lock);
	entry = entry_find(shard, freeing->key);
	again = entry && entry->block && !freeing->watched;
	if (again) {
		entry->block->references++;
	} else if (entry) {
		revived = !entry->block && (!freeing->watched || waiting_is_held(entry, freeing));
		if (revived)
			entry_revive(shard, entry, freeing->block);
	} else if ((entry = entry_for(&recorder->arena, shard, freeing->key, NULL, &stale))) {
		/* So many others died meanwhile that this one was forgotten. */
		entry->block = freeing->block;
		entry->span = freeing->span;
		ledger_block_set(freeing->block, LEDGER_BLOCK_LIVE);
	}
	lock_give(&shard->lock);
	if (again) /* a handle that came back meanwhile: see cuMemRetainAllocationHandle */
		block_drop(recorder, freeing->block, (int64_t)freeing->bytes);
	if (revived && freeing->watched)
		released_add(recorder, -(int64_t)freeing->bytes);
}

/* The block stays, if nobody else ended it; what the call was refused for is said. */
static void refused(struct recorder *recorder, struct hook *hook, const struct freeing *freeing,
		    enum outcome outcome, int result)
{
	const struct ledger_block block = *freeing->block;
	bool unexplained;

	if (outcome == OUTCOME_INVALID && rivals_overtook(recorder, hook, freeing, result))
		return;
	block_put_back(recorder, freeing);
	unexplained = wrong_free_refused(recorder, hook, freeing, &block, outcome, result);
	if (outcome == OUTCOME_INVALID)
		rivals_refused(recorder, unexplained ? hook : NULL, freeing, result);
}

static void end_block(struct recorder *recorder, struct hook *hook, struct freeing *freeing,
		      enum outcome outcome, int result)
{
	switch (outcome) {
	case OUTCOME_LATE:
		count_in_row(recorder, freeing->block->row, offsetof(struct ledger_row, late), 1);
		/* fall through */
	case OUTCOME_DONE:
		if (freeing->watched)
			waiting_settle(recorder, hook, freeing);
		else
			drop(recorder, freeing->block, (int64_t)freeing->bytes);
		break;
	case OUTCOME_INVALID:
	case OUTCOME_REFUSED:
	case OUTCOME_NO_CONTEXT:
		if (freeing->watched && !waiting_is_there(recorder, freeing))
			waiting_settle(recorder, hook, freeing);
		else
			refused(recorder, hook, freeing, outcome, result);
		break;
	}
}

/* Of a number that was no live block when the call began. */
static void end_unknown(struct recorder *recorder, struct hook *hook, struct freeing *freeing,
			enum outcome outcome, int result)
{
	bool counts = outcome == OUTCOME_DONE && thread_self.call_frame == 0 &&
		      strncmp(hook->kind, LEDGER_KIND_OBJECT, sizeof(LEDGER_KIND_OBJECT) - 1) != 0;

	if (freeing->rival && rivals_end(recorder, freeing, outcome == OUTCOME_DONE, counts))
		return;
	if (outcome == OUTCOME_INVALID)
		wrong_free_judge(recorder, hook, freeing, result);
	else if (outcome == OUTCOME_NO_CONTEXT)
		wrong_free_judge_late(recorder, hook, freeing, result);
	else if (counts)
		ledger_trouble(recorder->header, LEDGER_TROUBLE_UNKNOWN_FREES, 1);
}

HOT_CALL void record_freed(struct hook *hook, struct freeing *freeing, enum outcome outcome,
			   int result)
{
	struct recorder *recorder;

	if (!freeing->recorder)
		return;
	recorder = recorder_resume(freeing->address);
	if (recorder && recorder == freeing->recorder) {
		if (freeing->block)
			end_block(recorder, hook, freeing, outcome, result);
		else
			end_unknown(recorder, hook, freeing, outcome, result);
	}
	if (recorder)
		recorder_leave();
}

void record_kept(struct freeing *freeing)
{
	struct recorder *recorder = freeing->block || freeing->rival ? recorder_enter() : NULL;

	if (recorder && recorder == freeing->recorder) {
		if (freeing->block)
			block_put_back(recorder, freeing);
		else
			rivals_end(recorder, freeing, false, false);
	}
	if (recorder)
		recorder_leave();
}

/* ---- contexts ---- */

static void end_shard(struct recorder *recorder, struct shard *shard, uint64_t context,
		      const struct past *ending)
{
	struct ledger_block *block;

	lock_take(&shard->lock);
	/* An entry that dies may push another dead one out of the table, never itself: so the
	 * next one is asked for only after. */
	for (struct entry *entry = shard->entries; entry; entry = entry->hh.next) {
		if (!entry->block || entry->block->context != context)
			continue;
		block = entry_die(&recorder->arena, shard, entry, ending);
		count_in_row(recorder, block->row, offsetof(struct ledger_row, with_context), 1);
		count_in_row(recorder, block->row, offsetof(struct ledger_row, with_context_bytes),
			     block->bytes);
		block_drop(recorder, block, (int64_t)block->bytes);
	}
	lock_give(&shard->lock);
}

void record_context_gone(struct hook *hook, uint64_t context)
{
	struct site site = { hook, NULL, SPACE_MEMORY };
	struct recorder *recorder;
	struct freeing freeing;
	struct past ending;

	if (!context || !(recorder = recorder_enter()))
		return;
	begin(recorder, &site, &freeing, &ending);
	ending.by_context = 1;
	for (unsigned int i = 0; i < BLOCK_SHARDS; i++)
		end_shard(recorder, &recorder->blocks.shard[i], context, &ending);
	recorder_leave();
}
