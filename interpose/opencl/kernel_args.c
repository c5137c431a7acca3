/* SPDX-License-Identifier: MIT
 *
 * Keeps one record of fixed size in the ledger for each kernel that was given a buffer. A record
 * names the kernel and its buffers by slot and use count of the slot. So nothing needs to be undone
 * when one of them ends: a reader ignores a name whose use count does not match. A dead kernel's
 * record is reused when its handle is, or when HOLDS_MAX records exist.
 */
#include "interpose/opencl/kernel_args.h"

#include "interpose/block/blocks.h"
#include "interpose/recorder/recorder.h"
#include "interpose/base/hash.h"

struct holds_entry {
	uint64_t holder;
	struct ledger_holds *record;
	UT_hash_handle hh;
};

static bool is_over(struct recorder *recorder, uint64_t name)
{
	const struct ledger_block *block = ledger_at(&recorder->writer, (uint32_t)name);

	return __atomic_load_n(&block->state, __ATOMIC_RELAXED) >> 8 != name >> 32 ||
	       LEDGER_BLOCK_STATE(block->state) == LEDGER_BLOCK_UNUSED;
}

static void begin_again(struct ledger_holds *record, uint64_t holder)
{
	__atomic_store_n(&record->holder, 0, __ATOMIC_RELEASE);
	for (unsigned int i = 0; i < LEDGER_HOLDS_ARGUMENTS; i++)
		__atomic_store_n(&record->held[i], 0, __ATOMIC_RELAXED);
	__atomic_store_n(&record->holder, holder, __ATOMIC_RELEASE);
}

/* Removes the entry of a kernel that has ended and returns its record, or NULL. */
static struct ledger_holds *take_dead(struct recorder *recorder)
{
	struct arena *arena = &recorder->arena;
	struct ledger_holds *record = NULL;
	struct holds_entry *entry, *next;

	HASH_ITER(hh, recorder->holds->entries, entry, next) {
		if (!is_over(recorder, entry->record->holder))
			continue;
		record = entry->record;
		HASH_DEL(recorder->holds->entries, entry);
		arena_give(arena, entry, sizeof(*entry));
		recorder->holds->count--;
		break;
	}
	return record;
}

static struct ledger_holds *new_record(struct recorder *recorder)
{
	uint32_t ref;

	if (recorder->holds->count >= HOLDS_MAX)
		return take_dead(recorder);
	ref = ledger_add_holds(&recorder->writer);
	return ref ? ledger_at(&recorder->writer, ref) : NULL;
}

static struct holds_entry *add_entry(struct recorder *recorder, uint64_t handle)
{
	struct arena *arena = &recorder->arena;
	struct ledger_holds *record = new_record(recorder);
	struct holds_entry *entry = record ? arena_take(arena, sizeof(*entry)) : NULL;

	if (!entry)
		return NULL; /* out of memory: a new record stays unused, which costs a few bytes */
	entry->holder = handle;
	entry->record = record;
	TABLE_ADD(recorder->holds->entries, holder, entry);
	if (!entry->hh.tbl) {
		arena_give(arena, entry, sizeof(*entry));
		return NULL;
	}
	recorder->holds->count++;
	return entry;
}

/* Locking: recorder->holds->lock. Stores HELD as argument INDEX of the kernel with the block name
 * HOLDER. */
static void set(struct recorder *recorder, uint64_t handle, uint64_t holder, uint32_t index,
		uint64_t held)
{
	struct holds_entry *entry;

	TABLE_FIND(recorder->holds->entries, &handle, entry);
	if (!entry && !held)
		return;
	if (!entry)
		entry = add_entry(recorder, handle);
	if (!entry)
		return;
	if (entry->record->holder != holder)
		begin_again(entry->record, holder);
	__atomic_store_n(&entry->record->held[index], held, __ATOMIC_RELEASE);
}

void holds_set(enum api api, uint64_t holder_handle, uint32_t index, uint64_t handle)
{
	struct recorder *recorder = recorder_now();
	uint64_t holder, held;

	if (index >= LEDGER_HOLDS_ARGUMENTS || !recorder || !(recorder = recorder_enter()))
		return;
	held = record_name_of(recorder, api, handle);
	holder = record_name_of(recorder, api, holder_handle);
	if (holder) {
		lock_take(&recorder->holds->lock);
		set(recorder, holder_handle, holder, index, held);
		lock_give(&recorder->holds->lock);
	}
	recorder_leave();
}

bool holds_names(struct recorder *recorder, uint64_t handle, uint64_t ret[LEDGER_HOLDS_ARGUMENTS])
{
	struct holds_entry *entry;
	bool found;

	lock_take(&recorder->holds->lock);
	TABLE_FIND(recorder->holds->entries, &handle, entry);
	found = entry && !is_over(recorder, entry->record->holder);
	for (unsigned int i = 0; found && i < LEDGER_HOLDS_ARGUMENTS; i++)
		ret[i] = entry->record->held[i];
	lock_give(&recorder->holds->lock);
	return found;
}
