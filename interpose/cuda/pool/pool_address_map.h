/* SPDX-License-Identifier: MIT
 *
 * The table from addresses to pooled blocks, and the records of blocks.
 */
#ifndef GPULEAK_POOL_ADDRESS_MAP_H
#define GPULEAK_POOL_ADDRESS_MAP_H

#include "interpose/cuda/pool/pool_types.h"

/* Returns the block that begins at ADDRESS, or NULL. Takes no lock. */
struct pool_block *pool_map_lookup(struct pool *pool, uint64_t address);
/* Inserts BLOCK, in place of another block at its address. Returns false if memory is short. */
bool pool_map_insert(struct pool *pool, struct pool_block *block);
void pool_map_remove(struct pool *pool, struct pool_block *block);
/* Removes all blocks of CONTEXT, which has ended. */
void pool_map_drop(struct pool *pool, struct pool_context *context);

/* Returns an unused record, or NULL if memory is short. */
struct pool_block *pool_block_new(struct pool *pool);
/* Makes BLOCK's record available to pool_block_new(). Its memory is never used for anything but
 * records. */
void pool_block_recycle(struct pool *pool, struct pool_block *block);

#endif
