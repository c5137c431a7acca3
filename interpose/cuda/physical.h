/* SPDX-License-Identifier: MIT
 *
 * Physical memory of CUDA's virtual memory management: which handles, mappings and multicast
 * bindings keep it alive, and which one of their blocks has its bytes. Hangs on the recorder,
 * so that a forked child finds none. All of it may find nothing (NULL): then no bytes move.
 */
#ifndef GPULEAK_PHYSICAL_H
#define GPULEAK_PHYSICAL_H

#include "interpose/block/blocks.h"
#include "interpose/base/hash.h"

struct physical;

/* What uses memory beside its handle: a mapping, or a binding to a multicast object. */
struct use {
	uint64_t number;         /* in its space; a mapping's address */
	uint64_t bytes;          /* of its range */
	uint64_t offset;         /* of a binding, in its object */
	int device;              /* of a binding, -1 unknown */
	struct physical *of;     /* NULL: memory that gpuleak knows nothing of */
	struct physical *object; /* of a binding; NULL: a mapping */
	struct ledger_block *block;
	struct use *next, *before; /* of the same memory, oldest first */
	struct use *bound;       /* to the same object */
	struct use *taken;       /* by the same call */
	struct freeing freeing;
	UT_hash_handle hh;
};

struct vmm {
	struct lock lock;
	struct physical *by_handle;
	struct use *mappings; /* by address */
};

/* ---- handles ---- */

/* The driver gave out a new HANDLE: memory that had it before has it no more. Comes before
 * the record of the handle, physical_made() after: BLOCK has all BYTES. */
void physical_forget(uint64_t handle);
void physical_made(uint64_t handle, struct ledger_block *block, uint64_t bytes, int device);

/* The memory of HANDLE, or what is mapped around ADDRESS, kept until it is let go. */
struct physical *physical_hold(uint64_t handle);
struct physical *physical_hold_mapped(uint64_t address);
void physical_let_go(struct physical *physical);

uint64_t physical_bytes(const struct physical *physical); /* 0: nobody knows, or others' */
int physical_device(const struct physical *physical);
bool physical_is(const struct physical *physical, uint64_t handle);
bool physical_is_mapped(const struct physical *physical);

/* Its handle, released before, is referenced again: BLOCK takes the bytes over. */
void physical_back(struct physical *physical, struct ledger_block *block);

/* Around the release of the last reference: FREEING has the handle's block. Afterwards it has
 * the bytes that go with it. Returns bindings that ended, linked by `taken`. */
struct physical *physical_releasing(uint64_t handle, const struct freeing *freeing);
struct use *physical_released(struct physical *physical, struct freeing *freeing, bool done);

/* ---- uses ---- */

/* FACTS, with number, bytes and block filled in, is a use of FACTS->of from now on. */
void use_add(const struct use *facts);
/* A mapping at ADDRESS, or a binding that FACTS tells the place of, ended unseen. */
void use_forget_mapping(uint64_t address);
void use_forget_binding(const struct use *facts);

/* Takes the mapping at ADDRESS, whatever its size, and all that lie wholly in the range; the
 * one at ADDRESS is the first. *RET_EXACT: together they are the range. */
struct use *uses_take_mappings(uint64_t address, uint64_t bytes, bool *ret_exact);
struct use *uses_take_bindings(uint64_t object, int device, uint64_t offset, uint64_t bytes);
void uses_put_back(struct use *taken);
/* USE is over and its memory may be used again. FREEING, a copy of its own, gets the bytes
 * that go with it. Returns bindings that ended with it. */
struct use *use_end(struct use *use, struct freeing *freeing);

/* The address of some mapping in the range, 0 = none. */
uint64_t use_in(uint64_t address, uint64_t bytes);

#endif
