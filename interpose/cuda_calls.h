/* SPDX-License-Identifier: MIT
 *
 * What the CUDA wrappers need besides their rows.
 */
#ifndef GPULEAK_CUDA_CALLS_H
#define GPULEAK_CUDA_CALLS_H

#include "blocks.h"
#include "types.h"

/* A success of an ALLOC row: adds the current context and its device. */
void cuda_record_made(const struct site *site, uint64_t address, uint64_t bytes);

/* A success of a MARK row on DEVICE, or in the current context if that is -1. */
void cuda_record_mark(const struct site *site, int device, uint64_t began_ns);

enum outcome cuda_outcome(CUresult r);

/* STREAM, on which HOOK was called, is being captured: what happens belongs to a graph. */
bool cuda_is_captured(const struct hook *hook, CUstream stream);

/* Bytes of an array of these extents (0 = none in that direction), all mipmap levels. */
uint64_t cuda_array_bytes(uint64_t width, uint64_t height, uint64_t depth, int format,
			  unsigned int channels, unsigned int flags, unsigned int levels);

/* What lookups give out for the HAND rows. */
#define HAND(symbol, returns, parameters) \
	returns looked_up_##symbol parameters __attribute__((visibility("hidden")));
#include "hooks.def"

#endif
