/* SPDX-License-Identifier: MIT
 *
 * Fences decide when a freed block is clean, so that it can be reused. Only functions with `wait`
 * in their name wait. Call all of them with no other lock held, since most take the lock of the
 * fences.
 */
#pragma once

#include "interpose/cuda/pool/pool_internal.h"
#include "interpose/base/submit_epoch.h"

/* Returns true if the fence of BLOCK, of CONTEXT, is complete. */
static inline bool pool_is_clean_in(const struct pool_context *context,
				    const struct pool_block *block)
{
#ifdef GPULEAK_TEST_NO_FENCES /* tests/torture must find wrong bytes without this check */
	(void)context;
	(void)block;
	return true;
#else
	return block->fence <=
	       atomic_load_explicit(&context->fences.completed, memory_order_acquire);
#endif
}

static inline bool pool_is_clean(const struct pool_block *block)
{
	return pool_is_clean_in(block->space->context, block);
}

/* Returns true if the last issued fence covers all work that was submitted. *RET_EPOCH gets the
 * present epoch. */
static HOT bool pool_fence_covers(struct pool_fences *fences, uint64_t *ret_epoch)
{
	uint64_t epoch = *ret_epoch = submits_epoch();

	return submits_certain() &&
	       atomic_load_explicit(&fences->epoch, memory_order_acquire) == epoch + 1 &&
	       !atomic_load_explicit(&fences->pending_fence, memory_order_acquire);
}

enum pool_fence_origin {
	POOL_FENCE_COVERED, /* nothing was submitted since the last fence */
	POOL_FENCE_SHARED,  /* with earlier frees */
	POOL_FENCE_NEW,
};

/* Returns the number of the fence that BLOCK, which is freed now, waits for. Unless AT_ONCE, its
 * event may be recorded later. */
uint64_t pool_fence_for_free_slow(const struct pool_block *block, bool at_once,
				  enum pool_fence_origin *ret_origin);
static HOT uint64_t pool_fence_for_free(const struct pool_block *block, bool at_once,
					enum pool_fence_origin *ret_origin)
{
	struct pool_fences *fences = &block->space->context->fences;
	uint64_t epoch;

	if (__builtin_expect(!pool_fence_covers(fences, &epoch), 0))
		return pool_fence_for_free_slow(block, at_once, ret_origin);
	*ret_origin = POOL_FENCE_COVERED;
	return atomic_load_explicit(&fences->last_issued, memory_order_acquire);
}

/* Queries which fences are complete. With RECORD_PENDING, records the pending fence first. Does
 * nothing if another thread has the lock. */
void pool_fences_poll(struct pool_context *context, bool record_pending);
/* Call after an allocation found no clean block. Records the pending fence. */
void pool_fences_note_miss(struct pool_context *context);
/* Queries whether fence NUMBER, and so each earlier one, is complete. */
void pool_fence_query(struct pool_context *context, uint64_t number);
/* Waits until fence NUMBER is complete, as the driver's free would. Returns false if it cannot
 * wait: a capture is under way, or an event failed. */
bool pool_fence_wait(struct pool_context *context, uint64_t number);
/* Waits like pool_fence_wait(), for an allocation that found no memory. If the fence covers later
 * work, the wait ends after a second: the driver's free would not have waited for that work. */
bool pool_fence_wait_for_memory(struct pool_context *context, uint64_t number);
/* See pool_context_idle(). */
void pool_fences_note_sync(struct pool_context *context, uint64_t epoch);
/* Returns true if all submitted work is known to be complete. Makes no driver call. */
bool pool_is_idle(struct pool_context *context);
/* Returns the number of the oldest fence that is not complete, or 0. */
uint64_t pool_fences_oldest(struct pool_context *context);
/* Returns the bytes of SPACE that wait for fences. Threads count late, so the result is less exact
 * than the search of pool_trim(). */
uint64_t pool_pending_bytes(struct pool_space *space);
/* Checks which kind of fence the driver supports. Returns false if it supports none. */
bool pool_fences_init(struct pool_context *context);
/* Call after CONTEXT ended: its events ended with it. */
void pool_fences_reset(struct pool_context *context);
