/* SPDX-License-Identifier: MIT
 *
 * CUDA objects that are not memory: the functions that the verbs of their rows and the hand-written
 * wrappers call. They are blocks of 0 bytes, in a space of handles for each kind. Must not make a
 * call that is forbidden during stream capture.
 */
#include "interpose/base/hash.h"
#include "interpose/block/block_table.h"
#include "interpose/block/blocks.h"
#include "interpose/cuda/wrappers/cuda_calls.h"

#define HANDLE_BITS 56 /* the upper byte of a key is the space */

/* Returns true if each context numbers the objects of CALL's kind on its own: cuda.h defines their
 * handles as opaque numbers, and drivers count them from 1. */
static bool is_numbered(const struct call *call)
{
	return call->hook->object == hooks[HOOK_cuTexObjectCreate].object ||
	       call->hook->object == hooks[HOOK_cuSurfObjectCreate].object;
}

/* Returns the number of HANDLE in the table. Also sets the space of CALL. */
static uint64_t number_of(struct call *call, uint64_t handle)
{
	uint64_t context;
	int device;

	call->space = space_of_object(call->hook);
	if (!handle || !is_numbered(call))
		return handle;
	cuda_current_context(&context, &device);
	return (handle ^ TABLE_MIX(context)) & (((uint64_t)1 << HANDLE_BITS) - 1);
}

void cuda_record_object(struct call *call, uint64_t handle, uint32_t references, int device)
{
	struct made made = { .number = number_of(call, handle), .address = handle };
	struct ledger_block *block;

	cuda_current_context(&made.context, &made.device);
	if (device >= 0)
		made.device = device;
	/* cuda.h: the streams of a green context have to be destroyed before it. */
	if (cuda_outlives_context(call->hook) || call->hook == &hooks[HOOK_cuGreenCtxStreamCreate])
		made.context = 0;
	block = record_block(call, &made);
	if (block && references > 1)
		block->references = references;
}

void cuda_record_object_once(struct call *call, uint64_t handle)
{
	if (!record_is_live(call, number_of(call, handle)))
		cuda_record_object(call, handle, 1, -1);
}

bool cuda_object_retained(struct call *call, uint64_t handle, uint32_t count)
{
	uint64_t number = number_of(call, handle);
	bool known = count && record_retained(call, number);

	if (known)
		record_references(call, number, (int64_t)count - 1);
	return known;
}

uint32_t cuda_object_ending(struct call *call, uint64_t handle, uint32_t count,
			    struct freeing *ret)
{
	uint64_t number = count ? number_of(call, handle) : 0;
	uint32_t removed = 0;

	if (count > 1)
		removed = (uint32_t)-record_references(call, number, 1 - (int64_t)count);
	record_freeing(call, number, ret);
	ret->address = handle;
	return removed;
}

void cuda_object_ended(struct call *call, uint32_t removed, struct freeing *freeing, CUresult r)
{
	enum outcome outcome = cuda_free_outcome(r, freeing);
	uint64_t number = key_of(call, freeing->key);

	record_released(call, freeing, outcome, (int)r);
	if (removed && !outcome_ends(outcome))
		record_references(call, number, removed);
}
