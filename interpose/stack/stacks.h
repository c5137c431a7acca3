/* SPDX-License-Identifier: MIT
 *
 * The stack of the calling thread as a number in the ledger.
 */
#ifndef GPULEAK_STACKS_H
#define GPULEAK_STACKS_H

#include <stddef.h>
#include <stdint.h>

struct recorder;
struct stripe;

/* What a wrapper's caller looks like from inside the wrapper: its frame pointer and the
 * return address, as the ABI lays them down. NULL where it is not known. */
struct caller {
	uint64_t frame_pointer;
	uint64_t pc;
};
#if defined(__x86_64__)
#define CALLER ((const struct caller *)__builtin_frame_address(0))
#else
#define CALLER ((const struct caller *)NULL)
#endif

/* The ref of the calling thread's stack in the ledger; 0 if there is no room or none is
 * recorded. STRIPE is the calling thread's, locked; CALLER of the wrapper, or NULL. */
uint32_t stack_here(struct recorder *recorder, struct stripe *stripe, const struct caller *caller);

#endif
