/* SPDX-License-Identifier: MIT
 *
 * Physical memory of CUDA's virtual memory management: which handles, mappings and multicast
 * bindings keep it alive, and which of their blocks counts its bytes. The state belongs to the
 * recorder, so a forked child starts without any. Every function accepts unknown memory (NULL);
 * then no bytes move between blocks.
 */
#pragma once

#include "interpose/block/blocks.h"
#include "interpose/base/hash.h"

struct physical;

/* A use of physical memory other than its handle: a mapping, or a binding to a multicast object. */
struct use {
	uint64_t number;         /* address of a mapping; of a binding: see binding_number() */
	uint64_t bytes;          /* size of its range */
	uint64_t offset;         /* of a binding: in its multicast object */
	int device;              /* of a binding; -1: unknown */
	struct physical *of;     /* the memory; NULL: unknown memory */
	struct physical *object; /* of a binding: the multicast object; NULL: a mapping */
	struct ledger_block *block;
	struct use *next, *before; /* uses of the same memory, oldest first */
	struct use *bound;       /* next binding to the same multicast object */
	struct use *taken;       /* next use that the same call ends */
	struct freeing freeing;
	UT_hash_handle hh;
};

struct vmm {
	struct lock lock;
	struct physical *by_handle;
	struct use *mappings; /* by address */
};

/* ---- handles ---- */

/* The driver returned a new HANDLE, so older memory no longer has this handle. Call
 * physical_forget() before the handle's block is recorded and physical_made() after. BLOCK then
 * counts all BYTES. IMPORTED: the memory may be another process's. */
void physical_forget(uint64_t handle);
void physical_made(uint64_t handle, struct ledger_block *block, uint64_t bytes, int device,
		   bool imported);

/* Return the memory of HANDLE, or the memory mapped around ADDRESS. It stays valid until
 * physical_let_go(). */
struct physical *physical_hold(uint64_t handle);
struct physical *physical_hold_mapped(uint64_t address);
void physical_let_go(struct physical *physical);

uint64_t physical_bytes(const struct physical *physical); /* 0: unknown, or imported memory */
/* Returns true if the memory was imported. Memory that is bound to it shows that it is a multicast
 * object instead, which has no memory of its own. */
bool physical_is_import(const struct physical *physical);
int physical_device(const struct physical *physical);
bool physical_is(const struct physical *physical, uint64_t handle);
bool physical_is_mapped(const struct physical *physical);

/* The application referenced the released handle of PHYSICAL again: BLOCK counts the bytes now. */
void physical_back(struct physical *physical, struct ledger_block *block);

/* Called before and after the driver releases the last reference. FREEING has the handle's block.
 * Afterwards FREEING also has the bytes that the release frees. Returns bindings that ended, linked
 * by `taken`. */
struct physical *physical_releasing(uint64_t handle, const struct freeing *freeing);
struct use *physical_released(struct physical *physical, struct freeing *freeing, bool done);

/* ---- uses ---- */

/* Adds a copy of NEW to the uses of NEW->of. The caller has set number, bytes and block. */
void use_add(const struct use *new);
/* Removes the mapping at ADDRESS, or the binding at the place in NEW. It ended without a call
 * that gpuleak intercepted. */
void use_forget_mapping(uint64_t address);
void use_forget_binding(const struct use *new);

/* Removes the mapping at ADDRESS, whatever its size, and all mappings that lie wholly in the range.
 * Returns them, linked by `taken`, with the one at ADDRESS first. *RET_EXACT: true if together they
 * cover exactly the range. */
struct use *uses_take_mappings(uint64_t address, uint64_t bytes, bool *ret_exact);
struct use *uses_take_bindings(uint64_t object, int device, uint64_t offset, uint64_t bytes);
void uses_put_back(struct use *taken);
/* Ends USE and returns its memory to the arena. FREEING, a copy of USE's, receives the bytes that
 * end with it. Returns bindings that ended with it, linked by `taken`. */
struct use *use_end(struct use *use, struct freeing *freeing);

/* Returns the address of the first mapping in the range of BYTES, or 0. Stores in *RET_BYTES how
 * many bytes of the range are mapped. */
uint64_t uses_in(uint64_t address, uint64_t bytes, uint64_t *ret_bytes);
