/* SPDX-License-Identifier: MIT
 *
 * What the CUDA wrappers need besides their rows.
 */
#ifndef GPULEAK_CUDA_CALLS_H
#define GPULEAK_CUDA_CALLS_H

#include "interpose/block/blocks.h"
#include "interpose/cuda/cuda_current.h"
#include "interpose/cuda/wrappers/cuda_rows.h"

/* A success of an ALLOC row: adds the current context and its device. */
void cuda_record_made(const struct site *site, uint64_t address, uint64_t bytes);

/* A block of another process's pool: imported again it is the same address, and one block. */
void cuda_record_shared(const struct site *call, uint64_t address);

/* A success of a MARK row on DEVICE, or in the current context if that is -1. */
void cuda_record_mark(const struct site *site, int device, uint64_t began_ns);

enum outcome cuda_outcome(CUresult r);
/* The same for a free: a dead context that is current is not always the block's. */
enum outcome cuda_free_outcome_slowly(CUresult r, const struct freeing *freeing);
static inline enum outcome cuda_free_outcome(CUresult r, const struct freeing *freeing)
{
	return __builtin_expect(r == CUDA_SUCCESS, 1) ? OUTCOME_DONE
						      : cuda_free_outcome_slowly(r, freeing);
}

/* Bytes of an array of these extents (0 = none in that direction), all mipmap levels. */
uint64_t cuda_array_bytes(uint64_t width, uint64_t height, uint64_t depth, int format,
			  unsigned int channels, unsigned int flags, unsigned int levels);

/* The two functions of a HAND row: its exported one and what lookups give out. Both return
 * `body_SYMBOL ARGUMENTS`; the arguments may name `route` and `site`. */
#define CUDA_HAND(symbol, parameters, arguments)                                            \
	EXPORT CUDA_HAND_BY(symbol, symbol, resolve_direct, parameters, arguments)          \
	CUDA_HAND_BY(looked_up_##symbol, symbol, resolve_driver, parameters, arguments)
#define CUDA_HAND_BY(name, symbol, find, parameters, arguments)                             \
	CUresult name parameters                                                            \
	{                                                                                   \
		struct hook *hook = &hooks[HOOK_##symbol];                                  \
		struct route route = find(hook);                                            \
		struct site site = { hook, CALLER, SPACE_MEMORY };                          \
		(void)site;                                                                 \
		return route.real ? body_##symbol arguments : CUDA_ERROR_NOT_FOUND;         \
	}

/* What lookups give out for each row. */
extern void *const cuda_wrappers[] __attribute__((visibility("hidden")));

#endif
