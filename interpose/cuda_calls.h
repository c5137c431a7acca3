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

enum outcome cuda_outcome(CUresult r);

/* What lookups give out for the HAND rows. */
#define HAND(symbol, returns, parameters) \
	returns looked_up_##symbol parameters __attribute__((visibility("hidden")));
#include "hooks.def"

#endif
