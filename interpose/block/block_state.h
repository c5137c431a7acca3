/* SPDX-License-Identifier: MIT
 *
 * The states of a block and the changes between them, for blocks.c, free.c and free_race.c; the
 * three changes that each pair of calls makes are in block_state_hot.h. Each function takes the
 * lock of the block's shard itself and needs the recorder to be entered. No function calls the
 * driver, records an error or captures a stack.
 */
#ifndef GPULEAK_BLOCK_STATE_H
#define GPULEAK_BLOCK_STATE_H

#include "interpose/block/block_types.h"
#include "interpose/block/error_record.h"

/* ---- the driver refused ---- */

/* Makes FREEING's block live again. */
void block_undo_free(struct recorder *recorder, const struct freeing *freeing);
/* Adds the reference again that FREEING removed from the handle. */
void block_undo_count_down(struct recorder *recorder, const struct freeing *freeing);
/* The driver's call that was to free LEFT was left by a jump, an exception or cancellation. Makes
 * the block live again, unless the driver reported its end or gave its key to another block. */
void block_undo_left_free(struct recorder *recorder, const struct call_free *left);

/* ---- the driver accepted ---- */

/* Makes BLOCK's slot unused and subtracts BYTES from the live bytes. BLOCK must not be in the table
 * any more. */
void block_drop(struct recorder *recorder, struct ledger_block *block, int64_t bytes);

/* Counts that BLOCK is freed after the driver had begun to shut down. */
COLD void block_count_late(struct recorder *recorder, const struct ledger_block *block);

/* FREEING's block ends with the call. Moves its mappings to the block that it is a part of, or
 * drops them if there is no such block. */
void block_drop_mappings(struct recorder *recorder, const struct freeing *freeing);

/* A call removed the last reference of a watched block and returned at NOW_NS of
 * recorder_fine_time(). API is the ref of the call's name. If the driver has reported the end of
 * the block meanwhile, ends the block. Otherwise the driver still has its memory, and the block
 * becomes released. */
void block_end_watched(struct recorder *recorder, uint32_t api, const struct freeing *freeing,
		       uint64_t now_ns);

/* The driver reports the end of the block that was made with WATCHED and has KEY, on another thread
 * than the one that frees it, or after the release. Moves its mappings as block_drop_mappings()
 * does. */
void block_destroyed(struct recorder *recorder, uint64_t key, uint64_t watched);

/* The process ends, and the driver will destroy what is left. A released block stays released if a
 * live block is a part of it: the driver's report of its end then counts for nothing. */
void block_keep_parents(struct recorder *recorder);

/* ---- other changes ---- */

/* Adds a reference to KEY's block by EVENT; a released block becomes live again. Returns false if
 * no block has KEY. */
bool block_retain(struct recorder *recorder, uint64_t key, const struct ledger_reference *event);

/* Adds BY references, which may be negative, to KEY's live block, which keeps at least one. Returns
 * how many were added. */
int64_t block_add_references(struct recorder *recorder, uint64_t key, int64_t by);

/* Ends BLOCK as ENDING describes. RET_PAST gets the last two ended blocks of KEY, BLOCK first.
 * Returns false if BLOCK is not live under KEY any more. */
bool block_end_live(struct recorder *recorder, uint64_t key, struct ledger_block *block,
		    const struct past *ending, struct past ret_past[2]);

/* Ends every block of CONTEXT. */
void block_end_with_context(struct recorder *recorder, uint64_t context,
			    const struct past *ending);

#endif
