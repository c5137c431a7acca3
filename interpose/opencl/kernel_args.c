/* SPDX-License-Identifier: MIT
 *
 * Keeps one record of fixed size in the ledger for each kernel that was given a buffer. A record
 * names the kernel and its buffers by slot and use count of the slot. So nothing needs to be undone
 * when one of them ends: a reader ignores a name whose use count does not match. A dead kernel's
 * record is reused when its handle is, or when KERNEL_ARGS_MAX records exist.
 */
#include "interpose/opencl/kernel_args.h"

#include "interpose/block/blocks.h"
#include "interpose/recorder/recorder.h"
#include "interpose/base/hash.h"
#include "interpose/base/submit_epoch.h"
#include "ledger/shared.h"

struct kernel_args_entry {
	uint64_t kernel;
	struct ledger_kernel_args *record;
	UT_hash_handle hh;
};

static bool is_block_over(struct recorder *recorder, uint64_t name)
{
	const struct ledger_block *block = ledger_at(&recorder->writer, (uint32_t)name);
	uint32_t state = shared_load(block->state);

	return state >> 8 != name >> 32 ||
	       LEDGER_BLOCK_STATE(block->state) == LEDGER_BLOCK_UNUSED;
}

static void record_reset(struct ledger_kernel_args *record, uint64_t kernel)
{
	shared_publish(record->kernel, 0);
	for (unsigned int i = 0; i < LEDGER_KERNEL_ARGS_MAX; i++)
		shared_store(record->arg[i], 0);
	shared_publish(record->kernel, kernel);
}

/* Removes the entry of a kernel that has ended and returns its record, or NULL. */
static struct ledger_kernel_args *remove_ended_kernel(struct recorder *recorder)
{
	struct ledger_kernel_args *record = NULL;
	struct kernel_args_entry *entry, *next;

	HASH_ITER(hh, recorder->kernel_args->entries, entry, next) {
		if (!is_block_over(recorder, entry->record->kernel))
			continue;
		record = entry->record;
		TABLE_REMOVE(&recorder->arena, recorder->kernel_args->entries, entry);
		arena_give(&recorder->arena, entry, sizeof(*entry));
		recorder->kernel_args->count--;
		break;
	}
	return record;
}

static struct ledger_kernel_args *record_allocate(struct recorder *recorder)
{
	uint32_t ref;

	if (recorder->kernel_args->count >= KERNEL_ARGS_MAX)
		return remove_ended_kernel(recorder);
	ref = ledger_add_kernel_args(&recorder->writer, NULL);
	return ref ? ledger_at(&recorder->writer, ref) : NULL;
}

static struct kernel_args_entry *entry_insert(struct recorder *recorder, uint64_t handle)
{
	struct arena *arena = &recorder->arena;
	struct ledger_kernel_args *record = record_allocate(recorder);
	struct kernel_args_entry *entry = record ? arena_take(arena, sizeof(*entry)) : NULL;

	if (!entry)
		return NULL; /* out of memory: a new record stays unused, which costs a few bytes */
	entry->kernel = handle;
	entry->record = record;
	if (!TABLE_ADD(arena, recorder->kernel_args->entries, kernel, entry)) {
		arena_give(arena, entry, sizeof(*entry));
		return NULL;
	}
	recorder->kernel_args->count++;
	return entry;
}

/* Locking: needs recorder->kernel_args->lock. Stores ARG as argument INDEX of the kernel whose
 * block name is KERNEL. */
static void store_arg(struct recorder *recorder, uint64_t handle, uint64_t kernel, uint32_t index,
		      uint64_t arg)
{
	struct kernel_args_entry *entry;

	TABLE_FIND(recorder->kernel_args->entries, &handle, entry);
	if (!entry && !arg)
		return;
	if (!entry)
		entry = entry_insert(recorder, handle);
	if (!entry)
		return;
	if (entry->record->kernel != kernel)
		record_reset(entry->record, kernel);
	shared_publish(entry->record->arg[index], arg);
}

uint64_t kernel_args_set(uint64_t kernel_handle, uint32_t index, uint64_t handle)
{
	struct recorder *recorder = recorder_now();
	uint64_t kernel, arg, watch = 0;

	if (!recorder || !(recorder = recorder_enter())) {
		submits_unknown();
		return 0;
	}
	arg = record_use(recorder, SPACE_CL_HANDLE, handle, &watch);
	kernel = record_name_of(recorder, SPACE_CL_HANDLE, kernel_handle);
	if (kernel && index < LEDGER_KERNEL_ARGS_MAX) {
		lock_take(&recorder->kernel_args->lock);
		store_arg(recorder, kernel_handle, kernel, index, arg);
		lock_give(&recorder->kernel_args->lock);
	}
	recorder_leave();
	return watch;
}

bool kernel_args_lookup(struct recorder *recorder, uint64_t handle,
			uint64_t ret[LEDGER_KERNEL_ARGS_MAX])
{
	/* While the release of a kernel is in the driver, its handle may be another kernel's. */
	uint64_t kernel = record_name_of(recorder, SPACE_CL_HANDLE, handle);
	struct kernel_args_entry *entry;
	bool found;

	lock_take(&recorder->kernel_args->lock);
	TABLE_FIND(recorder->kernel_args->entries, &handle, entry);
	found = entry && !is_block_over(recorder, entry->record->kernel) &&
		(!kernel || entry->record->kernel == kernel);
	for (unsigned int i = 0; found && i < LEDGER_KERNEL_ARGS_MAX; i++)
		ret[i] = entry->record->arg[i];
	lock_give(&recorder->kernel_args->lock);
	return found;
}
