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

/* Which memory competes with a request: that of the same kind of place. */
enum holders_class {
	HOLDERS_NONE,   /* takes no memory, or it is not known where */
	HOLDERS_DEVICE, /* CUDA's device memory */
	HOLDERS_HOST,   /* host memory that CUDA locks */
	HOLDERS_OPENCL,
};

/* Returns the class of a block of KIND, LENGTH bytes, that a call of API makes. */
enum holders_class holders_class_of(enum api api, const char *kind, size_t length);

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
bool holders_count(struct recorder *recorder, enum holders_class class, int device,
		   struct holders *ret);

#endif
