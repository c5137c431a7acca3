/* SPDX-License-Identifier: MIT
 *
 * The states of a block and the changes between them, for blocks.c, free.c and free_race.c; the
 * three changes that each pair of calls makes are in block_state_hot.h. Each function takes the
 * lock of the block's shard itself and needs the recorder to be entered. None calls the driver,
 * records an error or captures a stack.
 */
#ifndef GPULEAK_BLOCK_STATE_H
#define GPULEAK_BLOCK_STATE_H

#include "interpose/block/block_types.h"
#include "interpose/block/error_record.h"

/* ---- the driver refused ---- */

/* Makes FREEING's block live again. */
void block_undo_free(struct recorder *recorder, const struct freeing *freeing);
/* Gives the handle the reference back that FREEING counted down. */
void block_undo_count_down(struct recorder *recorder, const struct freeing *freeing);
/* The driver's call that was to free LEFT was left by a jump, an exception or cancellation. Makes
 * the block live again, unless the driver reported its end or gave its key to another block. */
void block_undo_left_free(struct recorder *recorder, const struct call_free *left);

/* ---- the driver accepted ---- */

/* Returns the block's slot and bytes. The block is in no table any more. */
void block_drop(struct recorder *recorder, struct ledger_block *block, int64_t bytes);

/* FREEING's block ends with the call. Mappings of it become those of the block that it is a part
 * of. */
void block_drop_mappings(struct recorder *recorder, const struct freeing *freeing);

/* A call named API (a ref) released a watched block for the last time and returned at NOW_NS of
 * recorder_fine_time(). Either the driver has reported the end of the block meanwhile, and it ends
 * here, or it becomes released: the driver still has its memory. */
void block_end_watched(struct recorder *recorder, uint32_t api, const struct freeing *freeing,
		       uint64_t now_ns);

/* The driver reports the end of the block that was made with WATCHED and has KEY, on another thread
 * than the one that frees it, or after the release. Mappings of it become those of the block that
 * it is a part of. */
void block_destroyed(struct recorder *recorder, uint64_t key, uint64_t watched);

/* ---- other changes ---- */

/* Adds a reference to KEY's block by EVENT; a released block becomes live again. Returns false if
 * no block has KEY. */
bool block_retain(struct recorder *recorder, uint64_t key, const struct ledger_reference *event);

/* Adds BY references to KEY's live block, which keeps at least one. Returns how many were added. */
int64_t block_add_references(struct recorder *recorder, uint64_t key, int64_t by);

/* Ends BLOCK as ENDING describes. *RET_PAST gets what KEY was before. Returns false if BLOCK is not
 * live under KEY any more. */
bool block_end_live(struct recorder *recorder, uint64_t key, struct ledger_block *block,
		    const struct past *ending, struct past ret_past[2]);

/* Ends every block of CONTEXT. */
void block_end_with_context(struct recorder *recorder, uint64_t context,
			    const struct past *ending);

#endif
