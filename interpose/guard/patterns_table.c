/* SPDX-License-Identifier: MIT
 *
 * The blocks that have patterns: one sorted array for each API, and the queue of the freed blocks
 * that are held back. Judges what was read of a block. Must not call a driver, and records errors
 * only with no lock held.
 */
#include "interpose/guard/patterns_table.h"

#include <string.h>

#include "interpose/base/arena.h"
#include "interpose/base/hash.h"
#include "interpose/block/block_table.h"
#include "interpose/block/queries.h"
#include "interpose/guard/launches.h"
#include "interpose/stack/stacks.h"
#include "ledger/clock.h"
#include "ledger/nocancel.h"

#define STOCK_BYTES 65536u /* larger blocks are made one at a time */
#define READERS_NAPS 100000u
/* Drivers give a large block pages of its own. */
#define LARGE (UINT64_C(1) << 20)
#define PAGE (UINT64_C(2) << 20)

static struct arena arena;

/* ---- the sorted array; Locking: the caller holds the table's lock ---- */

/* Returns the index of the first block that ends behind ADDRESS. */
static uint32_t index_of(const struct guarded_table *table, uint64_t address)
{
	uint32_t low = 0, high = table->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		const struct guarded *block = table->blocks[middle];

		if (block->base + block->span <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static struct guarded *at_index(const struct guarded_table *table, uint32_t index)
{
	return index < table->count ? table->blocks[index] : NULL;
}

static struct guarded *find(const struct guarded_table *table, uint64_t address)
{
	struct guarded *block = at_index(table, index_of(table, address));

	return block && block->base <= address ? block : NULL;
}

static void remove_at(struct guarded_table *table, uint32_t index)
{
	memmove(&table->blocks[index], &table->blocks[index + 1],
		(--table->count - index) * sizeof(*table->blocks));
}

/* Returns what the driver takes for BYTES. */
static uint64_t taken_for(uint64_t bytes)
{
	return bytes < LARGE ? bytes : (bytes + PAGE - 1) / PAGE * PAGE;
}

/* Counts what BLOCK takes beyond the application's memory, or with SIGN -1 no longer. The memory of
 * a block of pages is counted there. */
static void count_unseen(struct guarded_table *table, const struct guarded *block, int sign)
{
	uint64_t bytes = taken_for(block->total) -
			 (block->state >= GUARDED_LEAVING ? 0 : taken_for(block->bytes));

	if (!block->companion && block->device >= 0 && block->device < GUARDED_DEVICES)
		atomic_fetch_add(&table->unseen[block->device],
				 sign < 0 ? -bytes : bytes);
}

static void count_state(struct guarded_table *table, struct guarded *block,
			enum guarded_state state)
{
	count_unseen(table, block, -1);
	block->state = state;
	count_unseen(table, block, 1);
}

static struct guarded **bin_of(struct guarded_table *table, uint64_t total)
{
	return &table->cached[TABLE_MIX(total) >> 58];
}

static void unlink_cached(struct guarded_table *table, const struct guarded *block)
{
	struct guarded **at = bin_of(table, block->total);

	while (*at && *at != block)
		at = &(*at)->next;
	if (!*at)
		return;
	*at = block->next;
	shared_store(table->cached_bytes, table->cached_bytes - block->total);
}

static void link_cached(struct guarded_table *table, struct guarded *block)
{
	struct guarded **bin = bin_of(table, block->total);

	block->next = *bin;
	*bin = block;
	shared_store(table->cached_bytes, table->cached_bytes + block->total);
}

static void unlink_held(struct guarded_table *table, const struct guarded *block)
{
	struct guarded **at = &table->oldest, *before = NULL;

	while (*at && *at != block) {
		before = *at;
		at = &(*at)->next;
	}
	if (!*at)
		return;
	*at = block->next;
	if (table->newest == block)
		table->newest = before;
	atomic_fetch_sub(&table->held, block->total);
}

static void drop_at(struct guarded_table *table, uint32_t index)
{
	struct guarded *block = table->blocks[index];

	count_unseen(table, block, -1);
	if (block->state == GUARDED_HELD)
		unlink_held(table, block);
	if (block->state == GUARDED_CACHED)
		unlink_cached(table, block);
	remove_at(table, index);
	if (block->state == GUARDED_LEAVING)
		atomic_fetch_sub(&table->leaving, 1);
	if (block->pins) /* the memory stays: a thread still reads it */
		block->state = GUARDED_DROPPED;
	else
		arena_give(&arena, block, sizeof(*block));
}

static bool widen(struct guarded_table *table)
{
	uint32_t room = table->room ? 2 * table->room : 256;
	struct guarded **wide;

	if (table->count < table->room)
		return true;
	wide = arena_take(&arena, room * sizeof(struct guarded *));
	if (!wide)
		return false;
	if (table->blocks) {
		memcpy(wide, table->blocks, table->count * sizeof(*wide));
		arena_give(&arena, table->blocks, table->room * sizeof(*wide));
	}
	table->blocks = wide;
	table->room = room;
	return true;
}

static void link_held(struct guarded_table *table, struct guarded *block)
{
	block->state = GUARDED_HELD;
	block->next = NULL;
	if (table->newest)
		table->newest->next = block;
	else
		table->oldest = block;
	table->newest = block;
	atomic_fetch_add(&table->held, block->total);
}

/* ---- the table ---- */

bool guarded_insert(struct guarded_table *table, const struct guarded *what)
{
	struct guarded *block = arena_take(&arena, sizeof(*block));
	uint32_t index;

	if (!block)
		return false;
	*block = *what;
	HOLD(&table->lock);
	index = index_of(table, block->base);
	while (at_index(table, index) &&
	       table->blocks[index]->base < block->base + block->span)
		drop_at(table, index);
	if (!widen(table)) {
		arena_give(&arena, block, sizeof(*block));
		return false;
	}
	memmove(&table->blocks[index + 1], &table->blocks[index],
		(table->count++ - index) * sizeof(*table->blocks));
	table->blocks[index] = block;
	count_unseen(table, block, 1);
	if (block->base < table->lowest)
		shared_store(table->lowest, block->base);
	if (block->base + block->span > table->highest)
		shared_store(table->highest, block->base + block->span);
	if (block->state == GUARDED_HELD)
		link_held(table, block);
	if (block->state == GUARDED_CACHED)
		link_cached(table, block);
	return true;
}

bool guarded_copy(struct guarded_table *table, uint64_t address, struct guarded *ret)
{
	const struct guarded *block;

	HOLD(&table->lock);
	block = find(table, address);
	if (block)
		*ret = *block;
	return block != NULL;
}

/* Locking: the caller holds the table's lock. Releases it while a thread reads BLOCK. A reader that
 * was cancelled never ends, so the wait is bounded. */
static void wait_for_readers(struct guarded_table *table, const struct guarded *block)
{
	static const struct timespec nap = { 0, 50000 };

	for (unsigned int i = 0; block->pins && i < READERS_NAPS; i++) {
		lock_give(&table->lock);
		nocancel_nanosleep(&nap);
		lock_take(&table->lock);
	}
}

struct guarded *guarded_take(struct guarded_table *table, uint64_t address, bool *ret_wrong)
{
	struct guarded *block;

	HOLD(&table->lock);
	block = find(table, address);
	*ret_wrong = block && (block->state != GUARDED_LIVE ||
			       address != block->base + block->front);
	if (!block || *ret_wrong)
		return NULL;
	block->state = GUARDED_FREEING;
	wait_for_readers(table, block);
	block->pins = 1;
	return block;
}

/* Locking: the caller holds the table's lock. Ends the state of BLOCK, which the caller has.
 * Returns false if the block was dropped: it is no more. */
static bool claim_end(struct guarded_table *table, struct guarded *block)
{
	if (block->state == GUARDED_DROPPED) {
		arena_give(&arena, block, sizeof(*block));
		return false;
	}
	if (block->state == GUARDED_LEAVING)
		atomic_fetch_sub(&table->leaving, 1);
	block->pins = 0;
	count_state(table, block, GUARDED_FREEING);
	return true;
}

void guarded_put_back(struct guarded_table *table, struct guarded *block)
{
	HOLD(&table->lock);
	if (claim_end(table, block))
		count_state(table, block, GUARDED_LIVE);
}

void guarded_leave(struct guarded_table *table, struct guarded *block)
{
	HOLD(&table->lock);
	if (block->state == GUARDED_DROPPED)
		return;
	atomic_fetch_add(&table->leaving, 1);
	count_state(table, block, GUARDED_LEAVING);
}

void guarded_hold(struct guarded_table *table, struct guarded *block)
{
	HOLD(&table->lock);
	if (!claim_end(table, block))
		return;
	count_state(table, block, GUARDED_HELD);
	link_held(table, block);
}

void guarded_cache(struct guarded_table *table, struct guarded *block)
{
	HOLD(&table->lock);
	if (!claim_end(table, block))
		return;
	count_state(table, block, GUARDED_CACHED);
	link_cached(table, block);
}

void guarded_remove(struct guarded_table *table, struct guarded *block)
{
	HOLD(&table->lock);
	if (claim_end(table, block))
		drop_at(table, index_of(table, block->base));
}

unsigned int guarded_pop(struct guarded_table *table, uint64_t limit,
			 struct guarded *ret[GUARDED_GROUP])
{
	unsigned int count = 0;
	struct guarded *block;

	HOLD(&table->lock);
	while (count < GUARDED_GROUP && (block = table->oldest) && !block->pins &&
	       atomic_load(&table->held) > limit &&
	       (!count || block->context == ret[0]->context)) {
		unlink_held(table, block);
		block->pins = 1;
		ret[count++] = block;
	}
	return count;
}

bool guarded_reuse(struct guarded_table *table, struct guarded *what)
{
	struct guarded *block;

	HOLD(&table->lock);
	block = *bin_of(table, what->total);
	while (block && (block->total != what->total || block->context != what->context))
		block = block->next;
	if (!block)
		return false;
	unlink_cached(table, block);
	count_unseen(table, block, -1);
	what->base = block->base;
	*block = *what;
	count_unseen(table, block, 1);
	return true;
}

unsigned int guarded_missed(struct guarded_table *table, uint64_t total)
{
	uint8_t *missed = &table->missed[bin_of(table, total) - table->cached];

	HOLD(&table->lock);
	if (total > STOCK_BYTES)
		return 1;
	if (1u << *missed < GUARDED_STOCK)
		return 1u << (*missed)++;
	return GUARDED_STOCK;
}

struct guarded *guarded_uncache(struct guarded_table *table, uint64_t limit)
{
	HOLD(&table->lock);
	for (unsigned int i = 0; i < GUARDED_BINS && table->cached_bytes > limit; i++) {
		struct guarded *block = table->cached[i];

		if (!block)
			continue;
		unlink_cached(table, block);
		count_state(table, block, GUARDED_FREEING);
		block->pins = 1;
		return block;
	}
	return NULL;
}

bool guarded_is_leaving(struct guarded_table *table, uint64_t address)
{
	const struct guarded *block;

	if (!atomic_load_explicit(&table->leaving, memory_order_relaxed))
		return false;
	HOLD(&table->lock);
	block = find(table, address);
	return block && block->state == GUARDED_LEAVING;
}

void guarded_drop(struct guarded_table *table, uint64_t context)
{
	HOLD(&table->lock);
	for (uint32_t i = table->count; i-- > 0;)
		if (table->blocks[i]->context == context)
			drop_at(table, i);
}

/* Pins the next blocks from *CURSOR on, and moves *CURSOR: to 0 at the end. */
static unsigned int pin(struct guarded_table *table, uint64_t context, uint64_t *cursor,
			struct guarded *ret[GUARDED_GROUP])
{
	unsigned int count = 0;
	uint32_t index;

	HOLD(&table->lock);
	for (index = index_of(table, *cursor); index < table->count && count < GUARDED_GROUP;
	     index++) {
		struct guarded *block = table->blocks[index];

		if (count && block->context != ret[0]->context)
			break;
		if ((context && block->context != context) || block->reported ||
		    (block->state != GUARDED_LIVE && block->state != GUARDED_HELD))
			continue;
		block->pins++;
		ret[count++] = block;
	}
	*cursor = index < table->count ? table->blocks[index]->base : 0;
	return count;
}

void guarded_check(struct guarded_table *table, const struct call *call, uint64_t context, bool all,
		   guarded_checker *check)
{
	struct guarded *blocks[GUARDED_GROUP];
	uint64_t cursor = all ? 0 : shared_load(table->cursor);
	unsigned int count;

	do {
		count = pin(table, context, &cursor, blocks);
		if (count)
			check(call, blocks, count);
		HOLD(&table->lock);
		while (count)
			blocks[--count]->pins--;
	} while (all && cursor);
	if (!all)
		shared_store(table->cursor, cursor);
}

/* ---- the pattern ---- */

static unsigned char byte_at(uint64_t offset)
{
	return (unsigned char)(offset & 1 ? PATTERN >> 8 : PATTERN);
}

void pattern_fill(unsigned char *memory, uint64_t offset, uint64_t bytes)
{
	for (uint64_t i = 0; i < bytes; i++)
		memory[i] = byte_at(offset + i);
}

static bool is_intact(const unsigned char *memory, uint64_t offset, uint64_t bytes)
{
	if (bytes < 3)
		return (!bytes || memory[0] == byte_at(offset)) &&
		       (bytes < 2 || memory[1] == byte_at(offset + 1));
	return memory[0] == byte_at(offset) && memory[1] == byte_at(offset + 1) &&
	       memcmp(memory, memory + 2, bytes - 2) == 0;
}

/* The bytes from the first wrong one to the last. */
struct wrong_bytes {
	uint64_t from, bytes;
};

/* At least one of BYTES at MEMORY, which begins at OFFSET of the driver's block, is wrong. */
static struct wrong_bytes find_wrong(const unsigned char *memory, uint64_t offset, uint64_t bytes)
{
	uint64_t first = 0, end = bytes;

	while (first < bytes && memory[first] == byte_at(offset + first))
		first++;
	while (end > first + 1 && memory[end - 1] == byte_at(offset + end - 1))
		end--;
	return (struct wrong_bytes){ offset + first, end - first };
}

/* Stores what BLOCK's record FOUND says of its allocation. */
static void describe(struct recorder *recorder, struct guarded *block,
		     const struct ledger_block *found)
{
	const struct ledger_site *site = ledger_at(&recorder->writer, found->site);

	block->allocated = (struct ledger_event){ site->api, site->stack, found->time_ns };
	block->kind = site->kind;
	block->device = site->device;
}

void guarded_freed_by(struct guarded *block, struct call *call)
{
	const struct ledger_block *freed = thread_self.call_free.block;
	LEAVE_AT_END struct recorder *recorder = call_begin(call);

	if (!recorder)
		return;
	if (freed)
		describe(recorder, block, freed);
	block->freed = (struct ledger_event){ call->name, stack_here(recorder, call->caller),
					      call->now_ns };
}

/* Returns true if WRONG, in the pattern behind BLOCK, lies nearer to the next block, which has no
 * pattern before it, with that block in *RET. */
static bool find_next(struct guarded_table *table, const struct guarded *block,
		      struct wrong_bytes wrong, struct guarded *ret)
{
	uint64_t behind = block->front + block->bytes, end = wrong.from + wrong.bytes;

	return block->span == block->total && wrong.from >= behind &&
	       block->total - end < wrong.from - behind &&
	       guarded_copy(table, block->base + block->total, ret) && !ret->front &&
	       ret->base == block->base + block->total &&
	       (ret->state == GUARDED_LIVE || ret->state == GUARDED_LEAVING);
}

static uint64_t launches_of(const struct guarded *block)
{
	return block->space == SPACE_MEMORY ? block->context : LAUNCHES_OPENCL;
}

/* Adds to ERROR the WRONG bytes of BLOCK, which are at MEMORY, and the calls that may have written
 * them, unless an earlier error was the same. */
static void record_bytes(struct recorder *recorder, struct ledger_error *error,
			 const struct guarded *block, struct wrong_bytes wrong,
			 const unsigned char *memory)
{
	struct ledger_overwrite new = { .bytes = sizeof(new.found) };

	if (shared_load(error->earlier_bytes))
		return;
	if (wrong.bytes < new.bytes)
		new.bytes = (uint32_t)wrong.bytes;
	memcpy(new.found, memory, new.bytes);
	pattern_fill(new.wanted, wrong.from, new.bytes);
	launches_suspect(recorder, launches_of(block), block->done,
			 block->state == GUARDED_LEAVING ? block->last : launches_now(),
			 block->base, block->span, &new);
	shared_store(error->earlier_bytes, ledger_add_overwrite(&recorder->writer, &new));
}

/* MEMORY has the wrong bytes. */
static void record(struct recorder *recorder, const struct call *call, struct guarded *block,
		   struct wrong_bytes wrong, bool is_before, const unsigned char *memory)
{
	bool freed = block->state == GUARDED_HELD;
	uint64_t number = block->base + block->front;
	struct ledger_error error = { .result = LEDGER_NO_ANSWER };
	struct hook *hook = &hooks[block->space == SPACE_MEMORY ? HOOK_cuMemAlloc_v2
								: HOOK_clCreateBuffer];
	struct ledger_block live;
	uint32_t ref;

	if (block->state == GUARDED_LEAVING)
		hook = &hooks[HOOK_cuMemFree_v2];
	else if (call)
		hook = call->hook;
	if (block->state < GUARDED_LEAVING &&
	    block_live(recorder, key_in(block->space, number), &live))
		describe(recorder, block, &live);
	if (block->state == GUARDED_LEAVING)
		error.stack = block->freed.stack;
	else
		error.stack = call ? stack_here(recorder, call->caller) : block->allocated.stack;
	error.address = block->base + wrong.from;
	error.asked_bytes = wrong.bytes;
	error.block_address = number;
	error.block_bytes = block->bytes;
	error.allocated = block->allocated;
	if (freed)
		error.freed = block->freed;
	else if (is_before || wrong.from < block->front)
		error.flags = LEDGER_ERROR_BEFORE;
	error.kind = block->kind;
	error.device = block->device;
	ref = guard_error(recorder, freed ? ERROR_WRITE_FREED : ERROR_WRITE_OUT, hook, &error);
	if (ref)
		record_bytes(recorder, ledger_at(&recorder->writer, ref), block, wrong, memory);
}

static void judge_piece(struct guarded_table *table, const struct call *call,
			const struct piece *piece, const unsigned char *memory)
{
	struct guarded *block = piece->block, next;
	struct wrong_bytes wrong;
	struct recorder *recorder;
	bool is_next;

	if (block->reported || is_intact(memory, piece->offset, piece->bytes))
		return;
	block->reported = true;
	wrong = find_wrong(memory, piece->offset, piece->bytes);
	memory += wrong.from - piece->offset;
	is_next = find_next(table, block, wrong, &next);
	if (is_next) {
		wrong.from += block->base - next.base;
		block = &next;
	}
	recorder = recorder_enter();
	if (!recorder)
		return;
	record(recorder, call, block, wrong, is_next, memory);
	recorder_leave();
}

void pieces_add(struct pieces *pieces, struct guarded *block, uint64_t offset, uint64_t bytes)
{
	if (!bytes)
		return;
	if (!pieces->count)
		pieces->done = launches_finished(launches_of(block));
	pieces->piece[pieces->count++] = (struct piece){ block, offset, bytes, pieces->bytes };
	pieces->bytes += bytes;
}

void pieces_add_around(struct pieces *pieces, struct guarded *block)
{
	uint64_t end = block->front + block->bytes;

	pieces_add(pieces, block, 0, block->front);
	pieces_add(pieces, block, end, block->total - end);
}

void pieces_judge(struct guarded_table *table, const struct call *call,
		  const struct pieces *pieces, unsigned int count, const unsigned char *memory)
{
	for (unsigned int i = 0; i < count; i++)
		judge_piece(table, call, &pieces->piece[i], memory + pieces->piece[i].at);
	for (unsigned int i = 0; i < count; i++) /* after both pieces of a block */
		pieces->piece[i].block->done = pieces->done;
	GUARD_COUNT(checks, count);
}

/* ---- the budget ---- */

static _Atomic uint64_t began_ns, used_ns;

bool check_time_left(void)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC), none = 0;

	if (atomic_compare_exchange_strong(&began_ns, &none, now))
		return true;
	return atomic_load(&used_ns) * 100 <= now - atomic_load(&began_ns);
}

void check_time_used(uint64_t ns)
{
	atomic_fetch_add(&used_ns, ns);
}
