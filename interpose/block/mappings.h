/* SPDX-License-Identifier: MIT
 *
 * Mappings of OpenCL memory objects: which of them the application has not unmapped, and where
 * it made them. Memory that is released while it is mapped stays with the driver.
 */
#ifndef GPULEAK_MAPPINGS_H
#define GPULEAK_MAPPINGS_H

#include "interpose/block/block_types.h"

/* Mappings of one memory object that are listed one by one. Further ones are counted. */
#define MAPPINGS_LISTED_MAX 64

/* One mapping: where in memory, and the call that made it (refs of the ledger). */
struct mapping {
	uint64_t address;
	uint64_t time_ns;
	uint32_t api;
	uint32_t stack;
	struct mapping *next; /* made later; or the next unused one */
};

/* An unmap under way: filled before the driver's call. */
struct unmapping {
	struct recorder *recorder; /* NULL: no mapping was taken out */
	uint64_t key;
	struct mapping mapping;
};

/* After the driver's call: the memory object HANDLE is mapped at ADDRESS. */
void record_mapped(const struct site *site, uint64_t handle, uint64_t address);

/* Before the driver's call, since the driver may give ADDRESS to another mapping at once. */
void record_unmapping(const struct site *site, uint64_t handle, uint64_t address,
		      struct unmapping *ret);
/* The driver refused: the mapping is still there. */
void record_unmapping_failed(const struct unmapping *unmapping);

/* Returns whether the application has mapped the memory object HANDLE and not unmapped it. */
bool record_is_mapped(enum api api, uint64_t handle);

/* Locking: the caller holds the lock of KEY's shard. Takes all mappings of BLOCK, which is
 * KEY's, out of the shard; NULL if there are none. */
struct mapped *mappings_take(struct recorder *recorder, struct shard *shard, uint64_t key,
			     struct ledger_block *block);
/* Gives MAPPED, from mappings_take(), to the block of PARENT, whose memory it is part of.
 * Without such a block it is dropped. */
void mappings_pass_on(struct recorder *recorder, struct mapped *mapped, uint64_t parent);

#endif
