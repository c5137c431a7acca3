/* SPDX-License-Identifier: MIT
 *
 * Writes the ledger records of exported blocks and of opened memory. Both are rare, so one lock
 * guards them all. It is taken after the lock of a shard of the block table, never before. Must not
 * call the driver.
 */
#include "interpose/recorder/ipc.h"

#include <string.h>

#include "interpose/base/hash.h"

_Atomic bool ipc_is_used READ_BY_ALL;

/* A block with a record. */
struct ipc_block {
	uint64_t name; /* of the block */
	struct ledger_ipc *record; /* never NULL */
	struct ipc_block *next; /* in a list of structs that are not in the table */
	UT_hash_handle hh;
};

/* ---- the caller holds the lock ---- */

static struct ipc_block *find_live(struct ipc *ipc, uint64_t name)
{
	struct ipc_block *found;

	TABLE_FIND(ipc->live, &name, found);
	return found;
}

static struct ipc_block *take_oldest(struct recorder *recorder, struct ipc *ipc)
{
	struct ipc_block *oldest = ipc->oldest;

	ipc->oldest = oldest->next;
	if (!ipc->oldest)
		ipc->newest = NULL;
	ipc->freed--;
	shared_add(recorder->header->exports_dropped, 1);
	return oldest;
}

/* Returns a struct whose record is unused, or NULL. */
static struct ipc_block *take_unused(struct recorder *recorder, struct ipc *ipc)
{
	struct ipc_block *block = ipc->spare;
	uint32_t ref;

	if (block) {
		ipc->spare = block->next;
		return block;
	}
	if (ipc->freed >= LEDGER_EXPORTS_FREED_MAX)
		return take_oldest(recorder, ipc);
	ref = ledger_add_ipc(&recorder->writer, NULL);
	block = ref ? arena_take(&recorder->arena, sizeof(*block)) : NULL;
	if (block)
		block->record = ledger_at(&recorder->writer, ref);
	return block;
}

static void give_unused(struct ipc *ipc, struct ipc_block *block)
{
	block->next = ipc->spare;
	ipc->spare = block;
}

/* Writes NEW, except its `block`, and then publishes it as the record of the block NAME. */
static void write_record(struct ledger_ipc *record, const struct ledger_ipc *new, uint64_t name)
{
	shared_publish(record->block, 0);
	atomic_thread_fence(memory_order_seq_cst); /* no reader sees new fields with the old name */
	*record = *new;
	shared_publish(record->block, name);
}

static bool add_record(struct recorder *recorder, struct ipc *ipc, const struct ledger_ipc *new,
		       uint64_t name)
{
	struct ipc_block *block;

	if (find_live(ipc, name))
		return true; /* exported before: the driver returns the same handle again */
	block = take_unused(recorder, ipc);
	if (!block)
		return false;
	write_record(block->record, new, name);
	block->name = name;
	block->next = NULL;
	if (TABLE_ADD(&recorder->arena, ipc->live, name, block))
		return true;
	write_record(block->record, &(struct ledger_ipc){ 0 }, 0);
	give_unused(ipc, block);
	return false;
}

static void keep_freed(struct ipc *ipc, struct ipc_block *block)
{
	block->next = NULL;
	if (ipc->newest)
		ipc->newest->next = block;
	else
		ipc->oldest = block;
	ipc->newest = block;
	ipc->freed++;
}

static void end_record(struct ipc *ipc, struct ipc_block *block, uint32_t api, uint32_t stack,
		       uint64_t now_ns)
{
	struct ledger_ipc *record = block->record;

	if (record->flags & LEDGER_IPC_OPENED) {
		write_record(record, &(struct ledger_ipc){ 0 }, 0);
		give_unused(ipc, block);
		return;
	}
	record->freed_api = api;
	record->freed_stack = stack;
	record->freed_ns = now_ns;
	shared_publish(record->flags, record->flags | LEDGER_IPC_FREED);
	keep_freed(ipc, block);
}

/* ---- the caller does not hold the lock ---- */

void ipc_add(struct recorder *recorder, struct ledger_ipc *record, uint64_t name)
{
	bool added;

	record->time_ns = recorder_fine_time(recorder);
	lock_take(&recorder->ipc->lock);
	added = add_record(recorder, recorder->ipc, record, name);
	lock_give(&recorder->ipc->lock);
	atomic_store_explicit(&ipc_is_used, true, memory_order_relaxed);
	if (!added)
		ledger_trouble(recorder->header, LEDGER_TROUBLE_UNRECORDED_IPC, 1);
}

bool ipc_is_open(struct recorder *recorder, uint64_t name, const void *handle)
{
	struct ipc *ipc = recorder->ipc;
	const struct ipc_block *known;

	HOLD(&ipc->lock);
	known = find_live(ipc, name);
	return known && known->record->flags & LEDGER_IPC_OPENED &&
	       memcmp(known->record->handle, handle, LEDGER_IPC_HANDLE) == 0;
}

void ipc_block_ended(struct recorder *recorder, const struct ledger_block *block, uint32_t api,
		     uint32_t stack)
{
	uint64_t name = ledger_block_name(block->state, ledger_ref(&recorder->writer, block));
	uint64_t now_ns = recorder_fine_time(recorder);
	struct ipc *ipc = recorder->ipc;
	struct ipc_block *known;

	HOLD(&ipc->lock);
	known = find_live(ipc, name);
	if (known) {
		TABLE_REMOVE(&recorder->arena, ipc->live, known);
		end_record(ipc, known, api, stack, now_ns);
	}
}
