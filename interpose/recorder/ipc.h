/* SPDX-License-Identifier: MIT
 *
 * Blocks that are shared between processes: the ledger records of exported blocks and of opened
 * memory. Any thread that has entered the recorder may call these functions.
 */
#pragma once

#include "interpose/recorder/recorder.h"

struct ipc_block;

/* Part of the recorder. */
struct ipc {
	struct lock lock; /* guards all fields */
	struct ipc_block *live; /* blocks with a record, by name */
	/* exports of freed blocks, in the order of their end, and their number */
	struct ipc_block *oldest, *newest;
	unsigned int freed;
	/* unused structs; their memory was closed, so their records are unused, too */
	struct ipc_block *spare;
};

/* True after the first record. Each free reads it. */
extern _Atomic bool ipc_is_used __attribute__((visibility("hidden")));

/* Sets the time of *RECORD and adds it as the record of the block NAME, unless that block has a
 * record already. */
void ipc_add(struct recorder *recorder, struct ledger_ipc *record, uint64_t name);
/* Returns true if the block NAME is memory that this process opened with HANDLE (LEDGER_IPC_HANDLE
 * bytes). */
bool ipc_is_open(struct recorder *recorder, uint64_t name, const void *handle);

/* Locking: the caller may hold the lock of a shard. Records that the call API (the ref of its name)
 * with STACK ended BLOCK, which is still in its slot. Both are 0 if the call is unknown. */
COLD void ipc_block_ended(struct recorder *recorder, const struct ledger_block *block,
			  uint32_t api, uint32_t stack);
static HOT void ipc_look_at_end(struct recorder *recorder, const struct ledger_block *block,
				uint32_t api, uint32_t stack)
{
	if (__builtin_expect(atomic_load_explicit(&ipc_is_used, memory_order_relaxed), 0))
		ipc_block_ended(recorder, block, api, stack);
}
