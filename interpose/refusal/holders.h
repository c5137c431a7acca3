/* SPDX-License-Identifier: MIT
 *
 * Counts who holds memory at this moment: the live bytes of each call site, with the bytes of a
 * block divided among the suballocations in it. Only reads the ledger, and other threads continue
 * meanwhile. Takes no lock and allocates nothing: the memory that it works in was reserved when the
 * recorder was made.
 */
#ifndef GPULEAK_HOLDERS_H
#define GPULEAK_HOLDERS_H

#include <stdbool.h>
#include <stdint.h>

#include "interpose/dispatch/hooks.h"
#include "ledger/format.h"

struct recorder;
struct holders_scratch;

/* Part of the recorder. */
struct holders_memory {
	struct holders_scratch *scratch; /* NULL: it could not be reserved */
};

struct holders {
	struct ledger_holder *list; /* the caller's array of `room` elements, largest first */
	uint32_t room, count;
	uint32_t other_sites; /* that found no room */
	uint64_t other_blocks, other_bytes;
	uint64_t allocs, suballocs; /* number of allocations since the start */
	bool divided;
};

/* Reserves the memory. Called once, before other threads can see the recorder. */
void holders_reserve(struct recorder *recorder);

/* Locking: one thread at a time. Fills in *RET, whose `list` and `room` are set, with those who
 * hold memory of CLASS on DEVICE (-1: on any). Returns false if there is no memory to work in. */
bool holders_count(struct recorder *recorder, enum ledger_memory class, int device,
		   struct holders *ret);

#endif
