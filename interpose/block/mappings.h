/* SPDX-License-Identifier: MIT
 *
 * Mappings of OpenCL memory objects: which mappings the application has not unmapped, and which
 * calls made them. If a memory object is released while it is mapped, the driver keeps its memory.
 */
#pragma once

#include "interpose/block/block_types.h"

/* Maximum number of mappings of one memory object that are stored. Further mappings are only
 * counted. */
#define MAPPINGS_LISTED_MAX 64

/* One mapping: its address, and the call that made it (api and stack are ledger refs). */
struct mapping {
	uint64_t address;
	uint64_t time_ns;
	uint32_t api;
	uint32_t stack;
	struct mapping *next; /* the next later mapping */
};

/* An unmap in progress, filled before the driver's call. */
struct unmapping {
	struct recorder *recorder; /* NULL: no mapping was removed */
	uint64_t key;
	uint64_t block; /* its name in the ledger */
	struct mapping mapping;
};

/* Records that the memory object HANDLE is mapped at ADDRESS. Call it after the driver's call. */
void record_mapped(const struct call *call, uint64_t handle, uint64_t address);

/* Removes the mapping of HANDLE at ADDRESS. Call it before the driver's call, because the driver
 * may use ADDRESS for another mapping at once. */
void record_unmapping(const struct call *call, uint64_t handle, uint64_t address,
		      struct unmapping *ret);
/* Restores the mapping, because the driver refused the unmap. */
void record_unmapping_failed(const struct unmapping *unmapping);

/* Returns true if the application has mapped the memory object HANDLE and not unmapped it. */
bool record_is_mapped(enum space space, uint64_t handle);

/* Locking: the caller holds the lock of KEY's shard. Removes all mappings of BLOCK, whose key is
 * KEY, from the shard. Returns them, or NULL if BLOCK has no mapping. */
struct mapped *mappings_take(struct recorder *recorder, struct shard *shard, uint64_t key,
			     struct ledger_block *block);
/* Locking: the caller holds no shard's lock. Moves MAPPED, from mappings_take(), to the block with
 * the key PARENT, whose memory the block was part of. If there is no such block, drops MAPPED. */
void mappings_pass_on(struct recorder *recorder, struct mapped *mapped, uint64_t parent);
