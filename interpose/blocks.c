/* SPDX-License-Identifier: MIT
 *
 * The table of blocks. Owns the order of things around a free and the judgement whether
 * it was wrong; must not call the driver, and holds a shard's lock only for table work,
 * never while unwinding, writing stacks or calling out.
 */
#include "blocks.h"

#include <string.h>

#include "errors.h"
#include "recorder.h"
#include "table.h"

/* One address or handle that a driver handed out. */
struct entry {
	uint64_t key; /* with its space, see key_of() */
	struct ledger_block *block; /* live, or NULL */
	struct past *past;          /* two generations, newest first; NULL until the first free */
	struct entry *older, *newer; /* among the dead */
	UT_hash_handle hh;
};

#define ENTRY_SLAB 4096u

/* No address uses the upper four bits. */
static uint64_t key_of(const struct site *site, uint64_t address)
{
	uint64_t space = site->space == SPACE_OBJECTS ? SPACE_OBJECTS + site->hook->api
						      : site->space;

	return address ^ space << 60;
}

static struct shard *shard_of(struct recorder *recorder, uint64_t key)
{
	return &recorder->blocks.shard[table_mix(key) >> 57];
}
_Static_assert(BLOCK_SHARDS == 128, "shard_of takes seven bits");

/* ---- entries and their death list; all with the shard's lock ---- */

static struct entry *take_entry(struct arena *arena, struct shard *shard)
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
		memset(entry, 0, sizeof(*entry));
	}
	return entry;
}

static void unlink_dead(struct shard *shard, struct entry *entry)
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

static void forget(struct arena *arena, struct shard *shard, struct entry *entry)
{
	HASH_DEL(shard->entries, entry);
	if (entry->past)
		arena_give(arena, entry->past, 2 * sizeof(*entry->past));
	memset(entry, 0, sizeof(*entry));
	entry->older = shard->spare;
	shard->spare = entry;
}

static void link_dead(struct arena *arena, struct shard *shard, struct entry *entry)
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

static struct entry *find(struct shard *shard, uint64_t key)
{
	struct entry *entry;

	TABLE_FIND(shard->entries, &key, entry);
	return entry;
}

/* KEY's entry with no live block in it; NULL if there is no memory. *RET_STALE gets a block
 * that was still there. */
static struct entry *entry_for(struct arena *arena, struct shard *shard, uint64_t key,
			       struct ledger_block **ret_stale)
{
	struct entry *entry = find(shard, key);

	*ret_stale = NULL;
	if (entry && entry->block) {
		*ret_stale = entry->block;
		entry->block = NULL;
		return entry;
	}
	if (entry) {
		unlink_dead(shard, entry);
		return entry;
	}
	entry = take_entry(arena, shard);
	if (!entry)
		return NULL;
	entry->key = key;
	TABLE_ADD(shard->entries, key, entry);
	if (!entry->hh.tbl) { /* uthash found no memory */
		entry->older = shard->spare;
		shard->spare = entry;
		return NULL;
	}
	return entry;
}

/* The live block leaves ENTRY and becomes its newest past. */
static struct ledger_block *entry_die(struct arena *arena, struct shard *shard, struct entry *entry,
				      const struct past *ending)
{
	struct ledger_block *block = entry->block;

	if (!entry->past)
		entry->past = arena_take(arena, 2 * sizeof(*entry->past));
	if (entry->past) {
		entry->past[1] = entry->past[0];
		entry->past[0] = *ending;
		entry->past[0].row = block->row;
		entry->past[0].bytes = block->bytes;
		entry->past[0].made_ns = block->time_ns;
	}
	entry->block = NULL;
	link_dead(arena, shard, entry);
	return block;
}

/* The free failed: as if it had not been tried. */
static void entry_revive(struct shard *shard, struct entry *entry, struct ledger_block *block)
{
	unlink_dead(shard, entry);
	entry->block = block;
	if (entry->past) {
		entry->past[0] = entry->past[1];
		memset(&entry->past[1], 0, sizeof(entry->past[1]));
	}
	ledger_block_set(block, LEDGER_BLOCK_LIVE);
}

/* ---- slots ---- */

static void drop_slot(struct recorder *recorder, struct ledger_block *block, int64_t bytes)
{
	struct stripe *stripe = thread_self.stripe;

	stripe_lock(stripe);
	stripe_live_add(recorder, stripe, -bytes, 0);
	stripe_give_slot(recorder, stripe, block);
	stripe_unlock(stripe);
}

static void count_in_row(struct recorder *recorder, uint32_t row_ref, size_t field, uint64_t by)
{
	uint8_t *row = ledger_at(&recorder->writer, row_ref);

	__atomic_fetch_add((uint64_t *)(void *)(row + field), by, __ATOMIC_RELAXED);
}

/* ---- allocation ---- */

static uint32_t stack_of(struct recorder *recorder, const struct caller *caller)
{
	struct stripe *stripe = thread_self.stripe;
	uint32_t stack;

	stripe_lock(stripe);
	stack = stack_here(recorder, stripe, caller);
	stripe_unlock(stripe);
	return stack;
}

static void not_recorded(struct recorder *recorder, uint64_t bytes)
{
	ledger_trouble(recorder->header, LEDGER_TROUBLE_UNRECORDED_BLOCKS, 1);
	ledger_trouble(recorder->header, LEDGER_TROUBLE_UNRECORDED_BYTES, bytes);
}

static void fill(struct recorder *recorder, struct ledger_block *block,
		 const struct ledger_row *row, const struct ledger_block *facts)
{
	uint32_t state = block->state;

	*block = *facts;
	block->state = state;
	block->row = ledger_ref(&recorder->writer, row);
	block->references = 1;
	ledger_block_publish(block);
}

/* A block that should have been gone: either the driver called its own exported name
 * inside the present call (then that record is replaced by this one), or it ended by a
 * call that we did not see. */
static void settle_stale(struct recorder *recorder, struct ledger_block *stale)
{
	struct ledger_row *row = ledger_at(&recorder->writer, stale->row);

	if (thread_self.nested == stale->address) {
		__atomic_fetch_sub(&row->allocs, 1, __ATOMIC_RELAXED);
		__atomic_fetch_sub(&row->bytes, stale->bytes, __ATOMIC_RELAXED);
	} else {
		__atomic_fetch_add(&row->unseen, 1, __ATOMIC_RELAXED);
		ledger_trouble(recorder->header, LEDGER_TROUBLE_STALE_BLOCKS, 1);
	}
	drop_slot(recorder, stale, (int64_t)stale->bytes);
}

static bool put_in_table(struct recorder *recorder, uint64_t key, struct ledger_block *block)
{
	struct shard *shard = shard_of(recorder, key);
	struct ledger_block *stale;
	struct entry *entry;

	lock_take(&shard->lock);
	entry = entry_for(&recorder->arena, shard, key, &stale);
	if (entry)
		entry->block = block;
	lock_give(&shard->lock);
	if (stale)
		settle_stale(recorder, stale);
	return entry != NULL;
}

static void made(struct recorder *recorder, const struct site *site,
		 const struct ledger_block *facts, int device)
{
	struct stripe *stripe = thread_self.stripe;
	struct ledger_block *block = NULL;
	struct ledger_row *row;

	stripe_lock(stripe);
	row = stripe_row(recorder, stripe, stack_here(recorder, stripe, site->caller), site->hook,
			 device);
	if (row)
		block = stripe_take_slot(recorder, stripe);
	if (block) {
		fill(recorder, block, row, facts);
		__atomic_store_n(&row->bytes, row->bytes + facts->bytes, __ATOMIC_RELAXED);
		__atomic_store_n(&row->allocs, row->allocs + 1, __ATOMIC_RELEASE);
		stripe_live_add(recorder, stripe, (int64_t)facts->bytes, facts->time_ns);
	}
	stripe_unlock(stripe);
	if (!block) {
		not_recorded(recorder, facts->bytes);
	} else if (!put_in_table(recorder, key_of(site, facts->address), block)) {
		__atomic_fetch_sub(&row->allocs, 1, __ATOMIC_RELAXED);
		__atomic_fetch_sub(&row->bytes, facts->bytes, __ATOMIC_RELAXED);
		drop_slot(recorder, block, (int64_t)facts->bytes);
		not_recorded(recorder, facts->bytes);
	}
}

void record_made(const struct site *site, uint64_t address, uint64_t bytes, uint64_t context,
		 int device, uint64_t parent)
{
	struct recorder *recorder;
	struct ledger_block facts = {
		.address = address, .bytes = bytes, .context = context, .parent = parent,
	};

	if (!address || !(recorder = recorder_enter()))
		return;
	facts.time_ns = stripes_now(recorder);
	made(recorder, site, &facts, device);
	if (facts.time_ns >= atomic_load_explicit(&recorder->writer.sample_due_ns,
						  memory_order_relaxed))
		ledger_add_sample(&recorder->writer, facts.time_ns,
				  (uint64_t)stripes_live(recorder));
	thread_self.nested = thread_self.depth ? address : 0;
	recorder_leave();
}

void record_call(void)
{
	thread_self.depth++;
}

void record_call_done(void)
{
	thread_self.depth--;
}

/* ---- free ---- */

static void begin(struct recorder *recorder, const struct site *site, uint64_t address,
		  struct freeing *ret, struct past *ret_ending)
{
	ret->address = address;
	ret->key = key_of(site, address);
	ret->stack = stack_of(recorder, site->caller);
	*ret_ending = (struct past){
		.freed_api = recorder_name_ref(recorder, site->hook),
		.freed_stack = ret->stack,
		.freed_ns = stripes_now(recorder),
	};
}

/* One reference of the block at ADDRESS goes; with the last one it leaves the table. What
 * became of it is in *RET. Returns the recorder, still entered, or NULL. */
static struct recorder *take(const struct site *site, uint64_t address, struct freeing *ret)
{
	struct recorder *recorder;
	struct shard *shard;
	struct entry *entry;
	struct past ending;

	memset(ret, 0, sizeof(*ret));
	if (!address || !(recorder = recorder_enter()))
		return NULL;
	ret->recorder = recorder;
	begin(recorder, site, address, ret, &ending);
	shard = shard_of(recorder, ret->key);
	lock_take(&shard->lock);
	entry = find(shard, ret->key);
	if (entry && entry->block && entry->block->references > 1) {
		entry->block->references--;
		ret->counted_down = true;
	} else if (entry && entry->block) {
		ledger_block_set(entry->block, LEDGER_BLOCK_FREEING);
		ret->block = entry_die(&recorder->arena, shard, entry, &ending);
		ret->bytes = ret->block->bytes;
	}
	lock_give(&shard->lock);
	return recorder;
}

void record_freeing(const struct site *site, uint64_t address, struct freeing *ret)
{
	if (take(site, address, ret))
		recorder_leave();
}

static bool past_of(struct recorder *recorder, uint64_t key, struct past ret[2])
{
	struct shard *shard = shard_of(recorder, key);
	struct entry *entry;
	bool known;

	lock_take(&shard->lock);
	entry = find(shard, key);
	known = entry && !entry->block && entry->past && entry->past[0].freed_api;
	if (known)
		memcpy(ret, entry->past, 2 * sizeof(*ret));
	lock_give(&shard->lock);
	return known;
}

/* The live block that the freed address points into, of the same space. Looks at every
 * block: this happens only after a wrong free, and for no more of them than are itemized. */
static bool block_around(struct recorder *recorder, const struct freeing *freeing,
			 struct ledger_block *ret)
{
	uint64_t address = freeing->address, space = freeing->key ^ address;
	bool found = false;

	for (unsigned int i = 0; i < BLOCK_SHARDS && !found; i++) {
		struct shard *shard = &recorder->blocks.shard[i];

		lock_take(&shard->lock);
		for (struct entry *e = shard->entries; e && !found; e = e->hh.next) {
			if (!e->block || (e->key ^ e->block->address) != space ||
			    address <= e->block->address ||
			    address - e->block->address >= e->block->bytes)
				continue;
			*ret = *e->block;
			found = true;
		}
		lock_give(&shard->lock);
	}
	return found;
}

/* Not a handle: it may point into a block. */
static bool is_address(const struct freeing *freeing)
{
	uint64_t space = freeing->key ^ freeing->address;

	return space == 0 || space == (uint64_t)SPACE_CL_USM << 60;
}

static void judge(struct recorder *recorder, struct hook *hook, const struct freeing *freeing,
		  int result)
{
	struct wrong_free wrong = { hook, freeing->address, freeing->stack, result };
	bool itemized = __atomic_load_n(&recorder->header->errors, __ATOMIC_RELAXED) < ERRORS_MAX;
	struct ledger_block around;
	struct past past[2];

	if (past_of(recorder, freeing->key, past))
		error_double_free(recorder, &wrong, past);
	else if (itemized && is_address(freeing) && block_around(recorder, freeing, &around))
		error_interior_free(recorder, &wrong, &around);
	else
		error_invalid_free(recorder, &wrong);
}

static void put_back(struct recorder *recorder, const struct freeing *freeing)
{
	struct shard *shard = shard_of(recorder, freeing->key);
	struct entry *entry;

	lock_take(&shard->lock);
	entry = find(shard, freeing->key);
	if (entry && !entry->block)
		entry_revive(shard, entry, freeing->block);
	lock_give(&shard->lock);
}

/* The kind that HOOK is for is not the block's: the driver was right to refuse it. */
static bool is_mismatch(struct recorder *recorder, struct hook *hook,
			const struct ledger_block *block)
{
	static const char *const own_calls[] = { "pinned", "ipc" }; /* ended by their own alone */
	const struct ledger_row *row = ledger_at(&recorder->writer, block->row);
	const struct ledger_string *kind = ledger_at(&recorder->writer, row->kind);

	if (!row->kind)
		return false;
	if (hook->kind[0])
		return strlen(hook->kind) != kind->length ||
		       memcmp(hook->kind, kind->bytes, kind->length) != 0;
	for (size_t i = 0; i < sizeof(own_calls) / sizeof(own_calls[0]); i++)
		if (strlen(own_calls[i]) == kind->length &&
		    memcmp(own_calls[i], kind->bytes, kind->length) == 0)
			return true;
	return false;
}

/* The block stays; what it was refused for is said. */
static void refused(struct recorder *recorder, struct hook *hook, const struct freeing *freeing,
		    enum outcome outcome, int result)
{
	struct wrong_free wrong = { hook, freeing->address, freeing->stack, result };
	struct ledger_block block = *freeing->block;

	put_back(recorder, freeing);
	if (outcome == OUTCOME_INVALID && is_mismatch(recorder, hook, &block))
		error_mismatched_free(recorder, &wrong, &block);
	else
		ledger_trouble(recorder->header, LEDGER_TROUBLE_REFUSED_FREES, 1);
}

static void end_block(struct recorder *recorder, struct hook *hook, struct freeing *freeing,
		      enum outcome outcome, int result)
{
	switch (outcome) {
	case OUTCOME_LATE:
		count_in_row(recorder, freeing->block->row, offsetof(struct ledger_row, late), 1);
		/* fall through */
	case OUTCOME_DONE:
		drop_slot(recorder, freeing->block, (int64_t)freeing->bytes);
		break;
	case OUTCOME_INVALID:
	case OUTCOME_REFUSED:
		refused(recorder, hook, freeing, outcome, result);
		break;
	}
}

void record_freed(struct hook *hook, struct freeing *freeing, enum outcome outcome, int result)
{
	struct recorder *recorder;

	if (!freeing->recorder)
		return;
	recorder = recorder_enter();
	if (recorder && recorder == freeing->recorder) {
		if (freeing->block)
			end_block(recorder, hook, freeing, outcome, result);
		else if (outcome == OUTCOME_INVALID)
			judge(recorder, hook, freeing, result);
		else if (outcome == OUTCOME_DONE && thread_self.depth == 0)
			ledger_trouble(recorder->header, LEDGER_TROUBLE_UNKNOWN_FREES, 1);
	}
	if (recorder)
		recorder_leave();
}

/* ---- references ---- */

static void retain(struct recorder *recorder, uint64_t key)
{
	struct shard *shard = shard_of(recorder, key);
	struct entry *entry;

	lock_take(&shard->lock);
	entry = find(shard, key);
	if (entry && entry->block)
		entry->block->references++;
	lock_give(&shard->lock);
}

void record_retained(const struct site *site, uint64_t handle)
{
	struct recorder *recorder;

	if (!handle || !(recorder = recorder_enter()))
		return;
	retain(recorder, key_of(site, handle));
	recorder_leave();
}

/* A handle that is dead by count: the driver would look into memory that it freed. What
 * it answers is its affair, the error is ours to tell, and before the call: a driver may
 * crash over it (CUDA's does over an array that is destroyed twice, seen on an H200). */
static void releasing_dead(struct recorder *recorder, struct hook *hook, struct freeing *freeing)
{
	struct wrong_free wrong = { hook, freeing->address, freeing->stack, LEDGER_NO_ANSWER };
	struct past past[2];

	if (past_of(recorder, freeing->key, past))
		freeing->error = error_double_free(recorder, &wrong, past);
}

/* SVM freed as USM or the other way round: some drivers take it, some answer nothing, some
 * crash. It is wrong on any, so it is told before the call. */
static void releasing_other_kind(struct recorder *recorder, struct hook *hook,
				 struct freeing *freeing)
{
	struct wrong_free wrong = { hook, freeing->address, freeing->stack, LEDGER_NO_ANSWER };
	struct ledger_block block = *freeing->block;

	if (hook->kind[0] && is_mismatch(recorder, hook, &block)) /* "": a call for several */
		freeing->error = error_mismatched_free(recorder, &wrong, &block);
}

void record_releasing(const struct site *site, uint64_t handle, struct freeing *ret)
{
	struct recorder *recorder = take(site, handle, ret);

	if (!recorder)
		return;
	if (!ret->block && !ret->counted_down)
		releasing_dead(recorder, site->hook, ret);
	else if (ret->block && site->space == SPACE_CL_USM)
		releasing_other_kind(recorder, site->hook, ret);
	recorder_leave();
}

static void released_other_kind(struct freeing *freeing, enum outcome outcome)
{
	struct recorder *recorder = recorder_enter();

	if (recorder && recorder == freeing->recorder) {
		if (outcome == OUTCOME_DONE)
			drop_slot(recorder, freeing->block, (int64_t)freeing->bytes);
		else
			put_back(recorder, freeing);
	}
	if (recorder)
		recorder_leave();
}

void record_released(struct hook *hook, struct freeing *freeing, enum outcome outcome, int result)
{
	struct ledger_error *error;

	if (!freeing->recorder)
		return;
	if (freeing->error) {
		error = ledger_at(&freeing->recorder->writer, freeing->error);
		__atomic_store_n(&error->result, result, __ATOMIC_RELAXED);
		if (freeing->block) /* of another kind */
			released_other_kind(freeing, outcome);
	} else if (!freeing->counted_down) {
		record_freed(hook, freeing, outcome, result);
	} else if (outcome != OUTCOME_DONE) {
		retain(freeing->recorder, freeing->key); /* it still has that reference */
	}
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
		drop_slot(recorder, block, (int64_t)block->bytes);
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
	begin(recorder, &site, 0, &freeing, &ending);
	ending.by_context = 1;
	for (unsigned int i = 0; i < BLOCK_SHARDS; i++)
		end_shard(recorder, &recorder->blocks.shard[i], context, &ending);
	recorder_leave();
}
