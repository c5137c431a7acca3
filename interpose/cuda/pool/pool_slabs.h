/* SPDX-License-Identifier: MIT
 *
 * Slabs: native blocks whose parts are blocks of their own.
 */
#ifndef GPULEAK_POOL_SLABS_H
#define GPULEAK_POOL_SLABS_H

#include "interpose/cuda/pool/pool_types.h"

/* Sets pool_fine_bins. Call before the first request. */
void pool_slabs_init(void);
/* Returns a live part for BYTES, which BIN serves, of the unused space in slabs, or NULL. */
struct pool_block *pool_slab_carve(struct pool *pool, struct pool_space *space, unsigned int bin,
				   uint64_t bytes);
/* Call after pool_cache_remove_any() found nothing. Returns a part of a larger cached part, of
 * adjacent cached parts that it coalesces, or of a new slab. Returns NULL if slabs are not enabled
 * for BYTES, or if there is no memory. */
struct pool_block *pool_slab_alloc(struct pool *pool, struct pool_space *space,
				   struct pool_cache *cache, unsigned int bin, uint64_t bytes);
/* Locking: needs the cache's lock. Returns true if the slabs are fragmented enough that coalescing
 * cached parts first will save a new slab. With little free space coalescing finds nothing. With
 * much free space it is not worth the time. */
bool pool_slab_is_fragmented(const struct pool_space *space, const struct pool_cache *cache,
			     uint64_t bytes);
/* Returns true if BLOCK, which may serve BIN, needs no pool_slab_cut(): it is not a part, it is of
 * BIN, or much preallocated memory is unused. */
bool pool_slab_fits(const struct pool_block *block, unsigned int bin);
/* Returns true if BLOCK is a part, of a slab that serves requests for BYTES. */
bool pool_slab_serves(const struct pool_block *block, uint64_t bytes);
/* Locking: needs the space's lock. Shrinks BLOCK, a clean part in no bin, to the size of BIN. */
void pool_slab_cut(struct pool_block *block, unsigned int bin);
/* Return BLOCK, a part in no bin, to its slab. Locking: the second needs the space's lock. */
void pool_slab_return(struct pool *pool, struct pool_block *block);
void pool_slab_return_locked(struct pool *pool, struct pool_block *block);
/* Stores the part around ADDRESS of the slab that begins at BASE. Returns true. */
bool pool_slab_lookup(struct pool *pool, const struct pool_block *base, uint64_t address,
		      struct pool_place *ret);
/* Returns empty slabs to the driver, up to BYTES, if no part of them was freed at BEFORE_S or
 * later. With ALL, also preallocated slabs. Returns the bytes. */
uint64_t pool_slabs_trim(struct pool *pool, struct pool_space *space, uint64_t bytes,
			 uint32_t before_s, bool all);
/* Call after SPACE's context has ended. Drops its slabs. */
void pool_slabs_drop(struct pool *pool, struct pool_space *space);

#endif
