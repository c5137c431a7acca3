/* SPDX-License-Identifier: MIT
 *
 * Finds the block that contains an address. Kept only while the guard needs it (CHECK_RANGES of
 * `alloc_checks`), from the moment at which the first block is recorded. Knows where blocks began;
 * if they are live, and their facts, only the table of blocks knows.
 */
#pragma once

#include "interpose/block/block_table.h"

#define RANGE_LEVELS_MAX 16u

/* Part of the recorder: a skip list, ordered by address. No two of its ranges overlap. */
struct block_ranges {
	struct lock lock; /* guards the other fields */
	struct block_range *first[RANGE_LEVELS_MAX];
	unsigned int top; /* the highest level that a range has had */
	uint64_t count;
	uint64_t limit; /* with more ranges, those of forgotten blocks are removed */
};

/* Locking: the caller holds no lock except the calling thread's own. Adds a block that has
 * KEY. It replaces the blocks that had its memory before. */
void ranges_add(struct recorder *recorder, uint64_t key, uint64_t address, uint64_t span);

enum range_state { RANGE_NONE_KNOWN, RANGE_LIVE, RANGE_ENDED };

/* The last block that began at or before an address. */
struct range_found {
	enum range_state state;
	uint64_t begin, span;
	uint64_t next; /* begin of the next known block, live or not; UINT64_MAX: none */
	unsigned int space; /* enum space */
	struct ledger_block live;
	struct past past; /* of an ended block */
};

/* Locking: the caller holds no lock and is inside RECORDER. */
void ranges_find(struct recorder *recorder, uint64_t address, struct range_found *ret);

/* Stores in RET the block that has KEY, or had it last. */
enum range_state ranges_state(struct recorder *recorder, uint64_t key,
			      struct ledger_block *ret_live, struct past *ret_past);
