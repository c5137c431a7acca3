/* SPDX-License-Identifier: MIT
 *
 * Counts which call sites hold memory at this moment: the live bytes of each call site. Bytes of a
 * block that belong to a suballocation in it count for the suballocation's call site instead. Only
 * reads the ledger, and other threads continue meanwhile. Takes no lock and allocates nothing: the
 * memory that it works in was reserved when the recorder was made.
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
	uint32_t other_sites; /* number of further call sites, for which `list` has no room */
	uint64_t other_blocks, other_bytes;
	uint64_t allocs, suballocs; /* number of allocations since the start */
	bool divided; /* false: too many blocks, so suballocations took no bytes from them */
};

/* Reserves the memory. Called once, before other threads can see the recorder. */
void holders_reserve(struct recorder *recorder);

/* Locking: one thread at a time. Fills in *RET, whose `list` and `room` are set, with the call
 * sites that hold memory of CLASS on DEVICE (-1: on any). Returns false if there is no memory to
 * work in. */
bool holders_count(struct recorder *recorder, enum ledger_memory class, int device,
		   struct holders *ret);

#endif
