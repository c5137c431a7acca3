/* SPDX-License-Identifier: MIT
 *
 * Lists which call sites hold memory at this moment. Only reads the ledger, and other threads
 * continue meanwhile. Takes no lock and allocates nothing. Its time depends on the number of call
 * sites, not on that of blocks.
 */
#ifndef GPULEAK_HOLDERS_H
#define GPULEAK_HOLDERS_H

#include <stdint.h>

#include "ledger/format.h"

struct recorder;

struct holders {
	struct ledger_holder *list; /* the caller's array of `room` elements, largest first */
	uint32_t room, count;
	uint32_t other_sites; /* number of further call sites, for which `list` has no room */
	uint64_t other_blocks, other_bytes;
	uint64_t inside_bytes; /* of all suballocations, also of those in `other_bytes` */
	uint64_t allocs, suballocs; /* number of allocations since the start */
};

/* Fills in *RET, whose `list` and `room` are set, with the call sites that hold memory of CLASS on
 * DEVICE (-1: on any). */
void holders_count(struct recorder *recorder, enum ledger_memory class, int device,
		   struct holders *ret);

#endif
