/* SPDX-License-Identifier: MIT
 *
 * The table of blocks. Owns the order of things around a free and the judgement whether
 * it was wrong; must not call the driver, and holds a shard's lock only for table work,
 * never while unwinding, writing stacks or calling out.
 */
#include "blocks.h"

#include <string.h>

#include "errors.h"
#include "history.h"
#include "recorder.h"
#include "table.h"

/* One address or handle that a driver handed out. */
struct entry {
	uint64_t key; /* with its space, see key_of() */
	struct ledger_block *block; /* live, or NULL */
	struct ledger_block *held;  /* released, but its memory is not freed; in no death list */
	uint64_t watched;           /* the driver will say with this when the block is gone */
	struct past *past;          /* two generations, newest first; NULL until the first free */
	uint64_t span; /* of the addresses that it takes; its bytes may be another's (VMM) */
	struct entry *older, *newer; /* among the dead */
	UT_hash_handle hh;
};

#define ENTRY_SLAB 4096u

/* No address uses the upper four bits. */
static uint64_t key_in(unsigned int space, uint64_t address)
{
	return address ^ (uint64_t)space << 60;
}

static unsigned int space_of(uint64_t key)
{
	return (unsigned int)(key >> 60);
}

static uint64_t key_of(const struct site *site, uint64_t address)
{
	return key_in(site->space == SPACE_OBJECTS ? SPACE_OBJECTS + site->hook->api : site->space,
		      address);
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
	if (entry && (entry->block || entry->held)) {
		*ret_stale = entry->block ? entry->block : entry->held;
		entry->block = entry->held = NULL;
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
static struct ledger_block *entry_end(struct arena *arena, struct entry *entry,
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

static struct ledger_block *entry_die(struct arena *arena, struct shard *shard, struct entry *entry,
				      const struct past *ending)
{
	struct ledger_block *block = entry_end(arena, entry, ending);

	link_dead(arena, shard, entry);
	return block;
}

/* The free failed, or the handle was retained again: as if it had not been tried. */
static void entry_revive(struct shard *shard, struct entry *entry, struct ledger_block *block)
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

static void drop_slot(struct recorder *recorder, struct ledger_block *block, int64_t bytes)
{
	struct stripe *stripe = thread_self.stripe;
	uint32_t history = block->history;

	stripe_lock(stripe);
	stripe_live_add(recorder, stripe, -bytes, 0);
	stripe_give_slot(recorder, stripe, block);
	stripe_unlock(stripe);
	if (history) /* only now: a reader must not find it with a live block */
		history_give(recorder, ledger_at(&recorder->writer, history));
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

	if (LEDGER_BLOCK_STATE(stale->state) != LEDGER_BLOCK_LIVE) {
		released_add(recorder, -(int64_t)stale->bytes); /* a release that was known */
	} else if (thread_self.nested == stale->address) {
		__atomic_fetch_sub(&row->allocs, 1, __ATOMIC_RELAXED);
		__atomic_fetch_sub(&row->bytes, stale->bytes, __ATOMIC_RELAXED);
	} else {
		__atomic_fetch_add(&row->unseen, 1, __ATOMIC_RELAXED);
		ledger_trouble(recorder->header, LEDGER_TROUBLE_STALE_BLOCKS, 1);
	}
	drop_slot(recorder, stale, (int64_t)stale->bytes);
}

enum placed { PLACED, PLACED_REFERENCE, PLACED_NOWHERE };

struct number {
	uint64_t key, span;
	bool shared;
	uint64_t watched;
	const uint32_t *stack; /* where it was made; NULL = by the call under way */
};

/* What is live under that number gets one more reference if it is shared, and gives way if
 * not. */
static enum placed put_in_table(struct recorder *recorder, const struct number *number,
				struct ledger_block *block)
{
	struct shard *shard = shard_of(recorder, number->key);
	struct ledger_block *stale = NULL;
	struct entry *entry;

	lock_take(&shard->lock);
	entry = number->shared ? find(shard, number->key) : NULL;
	if (entry && entry->block) {
		entry->block->references++;
		lock_give(&shard->lock);
		return PLACED_REFERENCE;
	}
	entry = entry_for(&recorder->arena, shard, number->key, &stale);
	if (entry) {
		entry->block = block;
		entry->span = number->span;
		entry->watched = number->watched;
	}
	lock_give(&shard->lock);
	if (stale)
		settle_stale(recorder, stale);
	return entry ? PLACED : PLACED_NOWHERE;
}

static struct ledger_block *made(struct recorder *recorder, const struct site *site,
				 const struct number *number, const struct ledger_block *facts,
				 int device)
{
	enum placed placed = PLACED_NOWHERE;
	struct stripe *stripe = thread_self.stripe;
	struct ledger_block *block = NULL;
	struct ledger_row *row;

	stripe_lock(stripe);
	row = stripe_row(recorder, stripe,
			 number->stack ? *number->stack
				       : stack_here(recorder, stripe, site->caller),
			 site->hook, device);
	if (row)
		block = stripe_take_slot(recorder, stripe);
	if (block) {
		fill(recorder, block, row, facts);
		__atomic_store_n(&row->bytes, row->bytes + facts->bytes, __ATOMIC_RELAXED);
		__atomic_store_n(&row->allocs, row->allocs + 1, __ATOMIC_RELEASE);
		stripe_live_add(recorder, stripe, (int64_t)facts->bytes, facts->time_ns);
	}
	stripe_unlock(stripe);
	if (block) {
		placed = put_in_table(recorder, number, block);
		if (placed == PLACED)
			return block;
		__atomic_fetch_sub(&row->allocs, 1, __ATOMIC_RELAXED);
		__atomic_fetch_sub(&row->bytes, facts->bytes, __ATOMIC_RELAXED);
		drop_slot(recorder, block, (int64_t)facts->bytes);
	}
	if (placed == PLACED_NOWHERE)
		not_recorded(recorder, facts->bytes);
	return NULL;
}

static struct ledger_block *record(const struct site *site, const struct number *number,
				   const struct ledger_block *facts, int device)
{
	struct ledger_block dated = *facts, *block;
	struct recorder *recorder = recorder_enter();

	if (!recorder)
		return NULL;
	dated.time_ns = stripes_now(recorder);
	block = made(recorder, site, number, &dated, device);
	if (dated.time_ns >= atomic_load_explicit(&recorder->writer.timeline.due_ns,
						  memory_order_relaxed))
		ledger_add_sample(&recorder->writer, &recorder->writer.timeline, dated.time_ns,
				  (uint64_t)stripes_live(recorder));
	thread_self.nested = thread_self.depth ? facts->address : 0;
	recorder_leave();
	return block;
}

struct ledger_block *record_block(const struct site *site, uint64_t number, uint64_t span,
				  const struct ledger_block *facts, int device, bool shared)
{
	const struct number what = {
		key_of(site, number), span, shared, site->watched, NULL
	};

	return number ? record(site, &what, facts, device) : NULL;
}

void record_made(const struct site *site, uint64_t address, uint64_t bytes, uint64_t context,
		 int device, uint64_t parent)
{
	const struct ledger_block facts = {
		.address = address, .bytes = bytes, .context = context, .parent = parent,
	};

	record_block(site, address, bytes, &facts, device, false);
}

uint32_t record_origin(const struct site *site)
{
	struct recorder *recorder = recorder_enter();
	uint32_t stack;

	if (!recorder)
		return 0;
	stack = stack_of(recorder, site->caller);
	recorder_leave();
	return stack;
}

void record_made_from(const struct site *site, uint32_t stack, uint64_t address, uint64_t bytes,
		      int device)
{
	const struct ledger_block facts = { .address = address, .bytes = bytes };
	const struct number what = { key_of(site, address), bytes, false, 0, &stack };

	if (address)
		record(site, &what, &facts, device);
}

bool record_is_live(const struct site *site, uint64_t address)
{
	struct recorder *recorder = recorder_enter();
	uint64_t key = key_of(site, address);
	struct entry *entry;
	struct shard *shard;
	bool live;

	if (!recorder)
		return false;
	shard = shard_of(recorder, key);
	lock_take(&shard->lock);
	entry = find(shard, key);
	live = entry && entry->block;
	lock_give(&shard->lock);
	recorder_leave();
	return live;
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

/* KEY's entry, or NULL, with its shard's lock taken. If its block has ABOVE references or
 * more and no history yet, *RET_SPARE is one for it: taken without the lock, as the ledger
 * may have to grow. */
static struct entry *lock_entry(struct recorder *recorder, struct shard *shard, uint64_t key,
				uint32_t above, struct ledger_history **ret_spare)
{
	struct entry *entry;
	bool tried = false;

	*ret_spare = NULL;
	for (;; tried = true) {
		lock_take(&shard->lock);
		entry = find(shard, key);
		if (tried || !entry || !entry->block || entry->block->history ||
		    entry->block->references < above)
			return entry;
		lock_give(&shard->lock);
		*ret_spare = history_take(recorder);
	}
}

/* With the shard's lock. */
static uint32_t note_reference(struct recorder *recorder, struct ledger_block *block,
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

static void unlock_entry(struct recorder *recorder, struct shard *shard,
			 struct ledger_history *spare)
{
	lock_give(&shard->lock);
	if (spare)
		history_give(recorder, spare);
}

static void count_down(struct recorder *recorder, struct ledger_block *block,
		       struct ledger_history **spare, const struct past *ending,
		       struct freeing *ret)
{
	struct ledger_reference event = {
		.op = LEDGER_RELEASE, .api = ending->freed_api, .stack = ending->freed_stack,
		.time_ns = ending->freed_ns,
	};

	block->references--;
	ret->order = note_reference(recorder, block, spare, &event);
	ret->counted_down = true;
}

/* A watched block waits in the table for its end, which may come inside the driver's call
 * or long after it; any other is out of it before the call. */
static void take_last(struct recorder *recorder, struct shard *shard, struct entry *entry,
		      struct past *ending, struct freeing *ret)
{
	ret->block = entry->block;
	ret->bytes = __atomic_load_n(&entry->block->bytes, __ATOMIC_RELAXED);
	ret->span = entry->span;
	ledger_block_set(entry->block, LEDGER_BLOCK_FREEING);
	if (entry->watched) {
		ret->watched = true;
		ret->use = entry->block->state >> 8;
		ending->freed_ns = ret->since_ns = released_now(recorder);
		entry->held = entry_end(&recorder->arena, entry, ending);
	} else {
		entry_die(&recorder->arena, shard, entry, ending);
	}
}

/* One reference of the block at ADDRESS goes; with the last one it leaves the table. What
 * became of it is in *RET. Returns the recorder, still entered, or NULL. */
static struct recorder *take(const struct site *site, uint64_t address, struct freeing *ret)
{
	struct ledger_history *spare;
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
	entry = lock_entry(recorder, shard, ret->key, 2, &spare);
	if (entry && entry->block && entry->block->references > 1) {
		count_down(recorder, entry->block, &spare, &ending, ret);
	} else if (entry && entry->block) {
		take_last(recorder, shard, entry, &ending, ret);
	}
	unlock_entry(recorder, shard, spare);
	if (ret->watched)
		released_add(recorder, (int64_t)ret->bytes);
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

/* BLOCK as an error tells of it: as large as the addresses that it takes. */
static void tell_block(const struct entry *entry, struct ledger_block *ret)
{
	*ret = *entry->block;
	ret->bytes = entry->span;
}

/* The live block that ADDRESS points into: linear memory, a mapping, or what FREEING's own
 * call ends. Looks at every block: this happens only after a wrong free, and for no more of
 * them than are itemized. */
static bool block_around(struct recorder *recorder, const struct freeing *freeing,
			 struct ledger_block *ret)
{
	unsigned int own = space_of(freeing->key);
	uint64_t address = freeing->address;
	bool found = false;

	if (own != SPACE_MEMORY && own != SPACE_VMM_MAPPING && own != SPACE_VMM_RESERVATION &&
	    own != SPACE_CL_USM)
		return false;
	for (unsigned int i = 0; i < BLOCK_SHARDS && !found; i++) {
		struct shard *shard = &recorder->blocks.shard[i];

		lock_take(&shard->lock);
		for (struct entry *e = shard->entries; e && !found; e = e->hh.next) {
			uint64_t start = e->block ? e->block->address : 0;

			if (!e->block || address <= start || address - start >= e->span ||
			    (e->key != key_in(SPACE_MEMORY, start) &&
			     e->key != key_in(SPACE_VMM_MAPPING, start) &&
			     e->key != key_in(own, start)))
				continue;
			tell_block(e, ret);
			found = true;
		}
		lock_give(&shard->lock);
	}
	return found;
}

static bool live_in(struct recorder *recorder, uint64_t key, struct ledger_block *ret)
{
	struct shard *shard = shard_of(recorder, key);
	struct entry *entry;
	bool live;

	lock_take(&shard->lock);
	entry = find(shard, key);
	live = entry && entry->block;
	if (live)
		tell_block(entry, ret);
	lock_give(&shard->lock);
	return live;
}

int record_device_of(uint64_t address)
{
	struct recorder *recorder = recorder_enter();
	struct ledger_block block;
	int device = -1;

	if (!recorder)
		return -1;
	if (live_in(recorder, key_in(SPACE_MEMORY, address), &block))
		device = ((const struct ledger_row *)ledger_at(&recorder->writer,
							       block.row))->device;
	recorder_leave();
	return device;
}

/* The number that FREEING's call did not know is a live block of another sort. A mapping
 * before the reservation that it begins with. (An unbind names the object on purpose.) */
static bool live_elsewhere(struct recorder *recorder, const struct freeing *freeing,
			   struct ledger_block *ret)
{
	static const unsigned char spaces[] = {
		SPACE_MEMORY, SPACE_REGISTERED, SPACE_OBJECTS + API_CUDA,
		SPACE_OBJECTS + API_OPENCL, SPACE_VMM_HANDLE, SPACE_VMM_MAPPING,
		SPACE_VMM_RESERVATION, SPACE_CL_USM,
	};

	if (space_of(freeing->key) == SPACE_MULTICAST_BINDING)
		return false;
	for (size_t i = 0; i < sizeof(spaces); i++) {
		uint64_t key = key_in(spaces[i], freeing->address);

		if (key != freeing->key && live_in(recorder, key, ret))
			return true;
	}
	return false;
}

static void judge(struct recorder *recorder, struct hook *hook, const struct freeing *freeing,
		  int result)
{
	struct wrong_free wrong = { hook, freeing->address, freeing->stack, result };
	bool itemized = __atomic_load_n(&recorder->header->errors, __ATOMIC_RELAXED) < ERRORS_MAX;
	struct ledger_block block;
	struct past past[2];

	if (past_of(recorder, freeing->key, past))
		error_double_free(recorder, &wrong, past);
	else if (live_elsewhere(recorder, freeing, &block))
		error_mismatched_free(recorder, &wrong, &block);
	else if (itemized && block_around(recorder, freeing, &block))
		error_interior_free(recorder, &wrong, &block);
	else
		error_invalid_free(recorder, &wrong);
}

/* No answer as to the block, but it is known to have ended with its context. */
static void judge_late(struct recorder *recorder, struct hook *hook,
		       const struct freeing *freeing, int result)
{
	struct wrong_free wrong = { hook, freeing->address, freeing->stack, result };
	struct past past[2];

	if (past_of(recorder, freeing->key, past) && past[0].by_context)
		error_double_free(recorder, &wrong, past);
}

/* The watched block that FREEING released is still there, and nobody took it up again. */
static bool is_held(const struct entry *entry, const struct freeing *freeing)
{
	return entry && entry->held && entry->held == freeing->block &&
	       entry->held->state >> 8 == freeing->use;
}

static void put_back(struct recorder *recorder, const struct freeing *freeing)
{
	struct shard *shard = shard_of(recorder, freeing->key);
	struct ledger_block *stale;
	struct entry *entry;
	bool again, revived = false;

	lock_take(&shard->lock);
	entry = find(shard, freeing->key);
	again = entry && entry->block && !freeing->watched;
	if (again) {
		entry->block->references++;
	} else if (entry) {
		revived = !entry->block && (!freeing->watched || is_held(entry, freeing));
		if (revived)
			entry_revive(shard, entry, freeing->block);
	} else if ((entry = entry_for(&recorder->arena, shard, freeing->key, &stale))) {
		/* So many others died meanwhile that this one was forgotten. */
		entry->block = freeing->block;
		entry->span = freeing->span;
		ledger_block_set(freeing->block, LEDGER_BLOCK_LIVE);
	}
	lock_give(&shard->lock);
	if (again) /* a handle that came back meanwhile: see cuMemRetainAllocationHandle */
		drop_slot(recorder, freeing->block, (int64_t)freeing->bytes);
	if (revived && freeing->watched)
		released_add(recorder, -(int64_t)freeing->bytes);
}

/* The kind that HOOK is for is not the block's: the driver was right to refuse it. */
static bool is_mismatch(struct recorder *recorder, struct hook *hook,
			const struct ledger_block *block)
{
	/* Ended by their own alone. */
	static const char *const own_calls[] = { "pinned", "ipc", "cl-svm" };
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

/* The memory of BLOCK, which waited for WAIT_NS, is gone. */
static void end_released(struct recorder *recorder, struct ledger_block *block,
			 const struct past *ending, uint64_t wait_ns, bool was_counted)
{
	bool waited = was_counted || wait_ns >= RELEASED_WAIT_NS;

	if (waited && !was_counted)
		released_look(recorder); /* the driver waited inside the call */
	released_add(recorder, -(int64_t)block->bytes);
	drop_slot(recorder, block, (int64_t)block->bytes);
	if (waited) {
		released_look(recorder);
		released_waited(recorder, ending, wait_ns);
	}
}

/* The driver said inside the call that the memory goes, and returned: now it is gone.
 * NVIDIA's says so at once and then waits for the commands that use it. */
static bool has_gone(const struct entry *entry, const struct freeing *freeing)
{
	return !is_held(entry, freeing) &&
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
		entry = find(shard, freeing->key);
		if (tried || !is_held(entry, freeing) || entry->held->history)
			return entry;
		lock_give(&shard->lock);
		*ret_spare = history_take(recorder); /* the ledger may grow: not with the lock */
	}
}

/* After the last release of a watched block: either the driver said meanwhile that its memory
 * is gone, or it is still held, and the ledger says since when and by whose call. */
static void settle_released(struct recorder *recorder, struct hook *hook,
			    const struct freeing *freeing)
{
	struct ledger_reference event = {
		.op = LEDGER_RELEASE, .api = recorder_name_ref(recorder, hook),
		.stack = freeing->stack, .time_ns = freeing->since_ns,
	};
	struct shard *shard = shard_of(recorder, freeing->key);
	struct ledger_history *spare;
	struct entry *entry = lock_released(recorder, shard, freeing, &spare);
	bool held = is_held(entry, freeing), gone = has_gone(entry, freeing);

	if (held) {
		note_reference(recorder, entry->held, &spare, &event);
		ledger_block_set(entry->held, LEDGER_BLOCK_RELEASED);
	}
	unlock_entry(recorder, shard, spare);
	if (held)
		released_look(recorder);
	if (gone)
		end_gone(recorder, hook, freeing);
}

static bool is_still_there(struct recorder *recorder, const struct freeing *freeing)
{
	struct shard *shard = shard_of(recorder, freeing->key);
	bool held;

	lock_take(&shard->lock);
	held = is_held(find(shard, freeing->key), freeing);
	lock_give(&shard->lock);
	return held;
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
			settle_released(recorder, hook, freeing);
		else
			drop_slot(recorder, freeing->block, (int64_t)freeing->bytes);
		break;
	case OUTCOME_INVALID:
	case OUTCOME_REFUSED:
	case OUTCOME_NO_CONTEXT:
		if (freeing->watched && !is_still_there(recorder, freeing))
			settle_released(recorder, hook, freeing);
		else
			refused(recorder, hook, freeing, outcome, result);
		break;
	case OUTCOME_UNDONE:
		put_back(recorder, freeing);
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
		else if (outcome == OUTCOME_NO_CONTEXT)
			judge_late(recorder, hook, freeing, result);
		else if (outcome == OUTCOME_DONE && thread_self.depth == 0 &&
			 strncmp(hook->kind, LEDGER_KIND_OBJECT,
				 sizeof(LEDGER_KIND_OBJECT) - 1) != 0)
			ledger_trouble(recorder->header, LEDGER_TROUBLE_UNKNOWN_FREES, 1);
	}
	if (recorder)
		recorder_leave();
}

void record_kept(struct freeing *freeing)
{
	struct recorder *recorder = freeing->block ? recorder_enter() : NULL;

	if (recorder && recorder == freeing->recorder)
		put_back(recorder, freeing);
	if (recorder)
		recorder_leave();
}

void record_misused(struct hook *hook, struct freeing *freeing, const struct misuse *misuse,
		    int result)
{
	struct wrong_free wrong = {
		.hook = hook, .address = freeing->address, .stack = freeing->stack,
		.result = result,
		.flags = misuse->other_range ? LEDGER_ERROR_OTHER_RANGE : 0,
		.asked_bytes = misuse->other_range ? misuse->asked_bytes : 0,
	};
	struct recorder *recorder;
	struct ledger_block block;

	record_kept(freeing);
	recorder = freeing->recorder ? recorder_enter() : NULL;
	if (recorder && recorder == freeing->recorder) {
		if (live_in(recorder, key_in(misuse->space, misuse->number), &block))
			error_mismatched_free(recorder, &wrong, &block);
		else
			ledger_trouble(recorder->header, LEDGER_TROUBLE_REFUSED_FREES, 1);
	}
	if (recorder)
		recorder_leave();
}

/* ---- references ---- */

static bool retain(struct recorder *recorder, uint64_t key, const struct ledger_reference *event)
{
	struct shard *shard = shard_of(recorder, key);
	struct ledger_history *spare;
	struct entry *entry = lock_entry(recorder, shard, key, 1, &spare);
	bool known = entry && (entry->block || entry->held);
	int64_t again = 0;

	if (entry && entry->held) { /* its memory was still there: it lives again */
		again = (int64_t)entry->held->bytes;
		entry_revive(shard, entry, entry->held);
		note_reference(recorder, entry->block, &spare, event);
	} else if (known) {
		entry->block->references++;
		note_reference(recorder, entry->block, &spare, event);
	}
	unlock_entry(recorder, shard, spare);
	if (again)
		released_add(recorder, -again);
	return known;
}

/* The release failed: the handle still has that reference. */
static void count_up_again(struct recorder *recorder, const struct freeing *freeing)
{
	struct shard *shard = shard_of(recorder, freeing->key);
	struct entry *entry;

	lock_take(&shard->lock);
	entry = find(shard, freeing->key);
	if (entry && entry->block) {
		entry->block->references++;
		if (entry->block->history)
			history_remove(ledger_at(&recorder->writer, entry->block->history),
				       freeing->order);
	}
	lock_give(&shard->lock);
}

bool record_retained(const struct site *site, uint64_t handle)
{
	struct ledger_reference event = { .op = LEDGER_RETAIN };
	struct recorder *recorder;
	bool known;

	if (!handle || !(recorder = recorder_enter()))
		return false;
	event.api = recorder_name_ref(recorder, site->hook);
	event.stack = stack_of(recorder, site->caller);
	event.time_ns = stripes_now(recorder);
	known = retain(recorder, key_of(site, handle), &event);
	recorder_leave();
	return known;
}

static bool is_object_kind(const struct ledger_string *kind)
{
	static const size_t length = sizeof(LEDGER_KIND_OBJECT) - 1;

	return kind->length >= length && memcmp(kind->bytes, LEDGER_KIND_OBJECT, length) == 0;
}

/* Whether HOOK could be meant for what had the handle: a driver gives the address of a dead
 * object to one of another sort, and not all calls that make objects are known to us. */
static bool may_end(struct recorder *recorder, const struct hook *hook, const struct past *past)
{
	const struct ledger_row *row = ledger_at(&recorder->writer, past->row);
	const struct ledger_string *kind = ledger_at(&recorder->writer, row->kind);

	if (hook->api != API_OPENCL || !row->kind)
		return true;
	if (!hook->kind[0])
		return !is_object_kind(kind);
	return strlen(hook->kind) == kind->length &&
	       memcmp(hook->kind, kind->bytes, kind->length) == 0;
}

static bool is_event_call(const struct hook *hook)
{
	return strcmp(hook->kind, LEDGER_KIND_OBJECT "cl-event") == 0;
}

/* A handle that is dead by count, or a number that is a block of another sort: the driver
 * would look into memory that is no object. What it answers is its affair, the error is ours
 * to tell, and before the call: a driver may crash over it (CUDA's does over an array that is
 * destroyed twice and over an address in place of a handle, seen on an H200). */
static void releasing_dead(struct recorder *recorder, struct hook *hook, struct freeing *freeing)
{
	struct wrong_free wrong = { hook, freeing->address, freeing->stack, LEDGER_NO_ANSWER };
	struct ledger_block block;
	struct past past[2];

	if (past_of(recorder, freeing->key, past) && may_end(recorder, hook, past)) {
		/* Extensions make events that we do not see, where one has been that we saw. */
		freeing->provisional = is_event_call(hook);
		if (!freeing->provisional || error_may_retract(recorder))
			freeing->error = error_double_free(recorder, &wrong, past);
	} else if (live_elsewhere(recorder, freeing, &block)) {
		freeing->error = error_mismatched_free(recorder, &wrong, &block);
	} else if (space_of(freeing->key) == SPACE_VMM_HANDLE && error_may_retract(recorder)) {
		/* Nobody gave it out, as far as we know; the driver looks into it all the same. */
		freeing->error = error_invalid_free(recorder, &wrong);
		freeing->provisional = true;
	}
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

/* The driver's answer to the release of a handle that we do not: it does. */
static bool knows_handle(const struct hook *hook, enum outcome outcome)
{
	return is_event_call(hook) ? outcome == OUTCOME_DONE : outcome != OUTCOME_INVALID;
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
	if (freeing->error && freeing->provisional && knows_handle(hook, outcome)) {
		error_retract(freeing->recorder, freeing->error);
		freeing->error = 0;
	}
	if (freeing->error) {
		error = ledger_at(&freeing->recorder->writer, freeing->error);
		__atomic_store_n(&error->result, result, __ATOMIC_RELAXED);
		if (freeing->block) /* of another kind */
			released_other_kind(freeing, outcome);
	} else if (!freeing->counted_down) {
		record_freed(hook, freeing, outcome, result);
	} else if (outcome == OUTCOME_INVALID || outcome == OUTCOME_REFUSED) {
		count_up_again(freeing->recorder, freeing);
	}
}

uint64_t record_name_of(struct recorder *recorder, enum api api, uint64_t handle)
{
	uint64_t key = handle ^ (uint64_t)(SPACE_OBJECTS + api) << 60;
	struct shard *shard = shard_of(recorder, key);
	struct entry *entry;
	uint64_t name = 0;

	if (!handle)
		return 0;
	lock_take(&shard->lock);
	entry = find(shard, key);
	if (entry && entry->block)
		name = (uint64_t)(entry->block->state >> 8) << 32 |
		       ledger_ref(&recorder->writer, entry->block);
	lock_give(&shard->lock);
	return name;
}

/* ---- memory that outlives its last reference ---- */

/* The block behind KEY is out of the table; *RET_ENDING tells of its release, if it had
 * one that we saw. NULL if that is still under way: then it ends when the call returns. */
static struct ledger_block *take_destroyed(struct recorder *recorder, uint64_t key,
					   uint64_t watched, struct past *ret_ending)
{
	struct shard *shard = shard_of(recorder, key);
	struct ledger_block *block = NULL;
	struct entry *entry;

	lock_take(&shard->lock);
	entry = find(shard, key);
	if (entry && entry->watched != watched)
		entry = NULL; /* told late: the handle is another block's by now */
	if (entry && entry->held) {
		if (LEDGER_BLOCK_STATE(entry->held->state) == LEDGER_BLOCK_RELEASED)
			block = entry->held;
		else
			ledger_block_set(entry->held, LEDGER_BLOCK_RELEASED);
		entry->held = NULL;
		if (entry->past)
			*ret_ending = entry->past[0];
		link_dead(&recorder->arena, shard, entry);
	} else if (entry && entry->block) {
		block = entry_die(&recorder->arena, shard, entry, ret_ending);
	}
	lock_give(&shard->lock);
	return block;
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
	drop_slot(recorder, block, (int64_t)block->bytes);
}

void record_destroyed(enum api api, uint64_t handle, uint64_t watched)
{
	struct recorder *recorder = recorder_now(); /* a child does not begin with this */
	struct past ending = { 0 };
	struct ledger_block *block;

	if (!recorder || !(recorder = recorder_enter()))
		return;
	block = take_destroyed(recorder, handle ^ (uint64_t)(SPACE_OBJECTS + api) << 60, watched,
			       &ending);
	if (block)
		end_destroyed(recorder, block, &ending);
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
