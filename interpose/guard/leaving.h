/* SPDX-License-Identifier: MIT
 *
 * Freed blocks that work of the application may still use. They are checked, filled and ended in
 * batches, in a stream that waits for that work, so that the free need not wait. Until then they
 * count as freed everywhere, and work that is given an address of one of them ends it first.
 */
#pragma once

#include <stdatomic.h>

#include "interpose/guard/patterns_table.h"

#define BATCHES 16u
#define BATCH_BYTES 65536u /* of pinned memory for what a batch reads */

struct leaving_batch {
	CUevent fence; /* complete: the work from before the frees is done */
	CUevent done;  /* complete: the blocks are read and filled */
	struct pieces pieces;
	unsigned int count, read; /* blocks; pieces that are read */
	struct guarded *block[GUARDED_GROUP];
	uint64_t bytes, launched;
	bool sent; /* to the stream; false: the driver has refused that */
};

/* Part of a place. */
struct leaving {
	struct lock lock;       /* guards the list of blocks in no batch */
	struct guarded *oldest, *newest;
	_Atomic uint32_t count; /* in the list */
	uint64_t bytes;         /* in the list */
	_Atomic uint64_t since_ns; /* when the oldest was freed */
	_Atomic bool working;   /* a thread has the batches */
	uint64_t batch_bytes;
	unsigned int first, batches;
	struct leaving_batch batch[BATCHES];
};

struct pattern_context;

/* Adds BLOCK, which is GUARDED_FREEING. The caller is outside struct pattern_work. */
void leaving_add(struct pattern_context *place, struct guarded *block);

enum leaving_until {
	LEAVING_POLL, /* ends what is done, sends a full batch */
	LEAVING_SENT, /* sends all. If the work from before is done, waits for gpuleak's own */
	LEAVING_SOON, /* sends all, and waits for at most a second */
	LEAVING_DONE, /* sends all, waits as the driver's free does, and ends all */
};
/* CALL may be NULL. */
void leaving_advance(const struct call *call, struct pattern_context *place,
		     enum leaving_until until);
/* Forgets all blocks of PLACE, whose context has ended. Returns false if a thread has them. */
bool leaving_forget(struct pattern_context *place);
/* Until at most HELD bytes are held, caches held blocks, and until at most CACHED bytes are cached,
 * returns blocks to the driver. Returns true if that was anything. */
bool leaving_release(const struct call *call, uint64_t held, uint64_t cached);
