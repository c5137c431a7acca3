/* SPDX-License-Identifier: MIT
 *
 * Memory of the driver: allocation, return, and the limit of cached bytes.
 */
#ifndef GPULEAK_POOL_NATIVE_H
#define GPULEAK_POOL_NATIVE_H

#include "interpose/cuda/pool/pool_types.h"

/* An application's free: the driver's own call. */
struct pool_native_free {
	void *real;
	uint64_t now_ns; /* when it began, see recorder_time() */
	bool async; /* cuMemFreeAsync, on STREAM */
	CUstream stream;
	bool elsewhere; /* STREAM is not a stream of the block's context */
};

/* Allocates a block for BIN by REAL, the driver's function. It is a live block of BYTES if there
 * is room for its record. Call with the recorder not entered. Returns the driver's result. */
CUresult pool_native_alloc(struct pool *pool, struct pool_space *space, void *real,
			   unsigned int bin, uint64_t bytes, uint64_t *ret_address);
/* Allocates a block of exactly BYTES for a slab. Returns NULL on failure. */
struct pool_block *pool_native_alloc_slab(struct pool *pool, struct pool_space *space, void *real,
					  uint64_t bytes);
/* Returns a slab's block to the driver without a wait for other streams. Returns false if the
 * driver refused. */
bool pool_native_return_slab(struct pool *pool, struct pool_block *block);
/* Creates the stream of CONTEXT on which clean blocks are freed. It takes some device memory. */
void pool_native_init(struct pool_context *context);
/* Call after the context of BLOCKS, linked by `next`, has ended. Frees blocks that outlive it. */
void pool_native_free_outlived(const struct pool_block *blocks);
/* Returns BLOCK, which is in no bin, to the driver: by NATIVE's call, or by the usual one if NATIVE
 * is NULL. Returns the driver's result. On failure the block is unchanged. */
CUresult pool_native_return(struct pool *pool, struct pool_block *block,
			    const struct pool_native_free *native);

/* Call after the cached bytes changed. Returns what exceeds the limit to the driver. With MAY_WAIT,
 * also waits until the bytes that wait for fences are below their limit. */
void pool_trim_to_limit(struct pool *pool, struct pool_space *space, bool may_wait);
/* Returns up to BYTES of clean blocks to the driver, the oldest first. Frees of pinned and managed
 * memory wait for the device: with IDLE_ONLY these are made only if the context is idle. Returns
 * the bytes. */
uint64_t pool_trim(struct pool *pool, struct pool_space *space, uint64_t bytes, bool idle_only);
/* Call before BYTES are allocated from the driver, with the recorder not entered. Trims the cache
 * without a wait. */
void pool_make_room(struct pool *pool, struct pool_space *space, uint64_t bytes);
/* Call before a slab is allocated of which BYTES will be in use and MORE will be cached. Trims as
 * pool_make_room() does. Returns false if the slab would exceed the limit or the free memory. */
bool pool_may_allocate(struct pool *pool, struct pool_space *space, uint64_t bytes, uint64_t more);
/* Call once a second, at NOW_S. Returns blocks that were unused for GPULEAK_POOL_DECAY seconds. */
void pool_decay(struct pool *pool, uint32_t now_s);
/* Call after an event failed. Stops pooling in CONTEXT, and writes that into the ledger. */
void pool_fail(struct pool *pool, struct pool_context *context);

#endif
