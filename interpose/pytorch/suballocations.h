/* SPDX-License-Identifier: MIT
 *
 * Records suballocations: what a framework allocates inside the blocks that it caches. They have a
 * table of their own, and chunks of their own in the ledger. So sums over blocks, limits and the
 * search of an invalid free do not include them.
 *
 * A framework reports its suballocations under a lock of its own. So these functions never call the
 * loader for a known stack, and they do not create the recorder: a process without GPU calls
 * records nothing. Any thread may call them. They keep errno.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "interpose/base/ref_table.h"
#include "interpose/block/call.h"

/* Who reports suballocations. Each has a table of its own, because an array of one may lie at the
 * same address as a block of another. */
enum suballocator { SUBALLOCATOR_PYTORCH, SUBALLOCATOR_NVTX, SUBALLOCATORS };

/* Device N has shard N modulo this number. */
#define SUBALLOCATION_SHARDS 32

struct suballocation_shard {
	struct lock lock;
	/* ref of the first unused block in a list; 0: none. `next_spare` of a block is the ref of
	 * the next one. */
	uint32_t spare;
	struct ref_table blocks; /* of an address: the block that was there last, live or freed */
} __attribute__((aligned(64)));

struct suballocations {
	struct suballocation_shard shard[SUBALLOCATORS][SUBALLOCATION_SHARDS];
};

/* The framework allocated BYTES at ADDRESS on DEVICE. API is the name of the call in a report. */
void record_suballocated(struct call *call, const char *api, uint64_t address, uint64_t bytes,
			 int device);
/* The framework freed its suballocation at ADDRESS of DEVICE. Returns false if no live one is known
 * there. */
bool record_suballocation_freed(uint64_t address, int device);
/* The same for regions of NVTX. */
void record_region(struct call *call, uint64_t address, uint64_t bytes, int device);
bool record_region_freed(uint64_t address, int device);
/* Locking for this and the next one: the caller is inside RECORDER and holds no lock of a shard.
 * All suballocations of BY that begin in BYTES from START on DEVICE were freed. */
void suballocations_end(struct recorder *recorder, enum suballocator by, uint64_t start,
			uint64_t bytes, int device);
/* BY calls its suballocation at ADDRESS of
 * DEVICE by the string NAME, a ref. Returns false if no live one is known there. */
bool suballocation_set_name(struct recorder *recorder, enum suballocator by, uint64_t address,
			    int device, uint32_t name);

enum suballocation_state { SUBALLOCATION_UNKNOWN, SUBALLOCATION_LIVE, SUBALLOCATION_FREED };

/* Locking: the caller is inside RECORDER and holds no lock. Finds the suballocation of DEVICE that
 * contains ADDRESS, inside a block of the cache that begins at LOWEST, and copies it to RET.
 * Returns FREED if a freed one contained it and no live one does, UNKNOWN also if the search would
 * take too long. PyTorch's suballocations begin at multiples of 512 bytes. */
enum suballocation_state suballocation_around(struct recorder *recorder, int device,
					      uint64_t address, uint64_t lowest,
					      struct ledger_block *ret);

/* ---- live_sites.c: call sites whose number of live blocks is counted, so that the report can find
 * those whose blocks accumulate. Call sites of suballocations are not decided here. ---- */

/* Returns true if the live blocks of a new call site of HOOK are counted. STACK is the ref of its
 * stack. Then the counting of live blocks is on from now on. */
bool site_counts_live(struct recorder *recorder, const struct hook *hook, uint32_t stack);
