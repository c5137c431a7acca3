/* SPDX-License-Identifier: MIT
 *
 * An allocator for a range whose memory it never touches: which units are allocated is stored
 * outside the range. Allocation, free and look-up take constant time. Free parts are in lists by
 * size, with two levels of bitmaps for the lists that are not empty; adjacent free parts are merged
 * at once. All sizes and places are numbers of units, never addresses. Locking: the caller must
 * hold a lock for the range.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "interpose/base/arena.h"

#define RANGE_NONE UINT32_MAX

#define RANGE_BINS 240  /* one for each size below 8 units; above, 8 for each doubling */
#define RANGE_GROUPS (RANGE_BINS / 8)
#define RANGE_LEVELS 6  /* levels of bitmaps; a bit stands for 64 bits of the level below */
#define RANGE_CHUNKS 27 /* chunks of nodes; each is twice as large as the one before */

struct range_node;

struct range_allocator {
	struct arena *arena;
	uint32_t units, free_units;
	uint32_t groups;                /* bit g: some list of group g has a part */
	uint8_t lists[RANGE_GROUPS];  /* of group g, bit i: list 8 * g + i is not empty */
	uint32_t first[RANGE_BINS];   /* the lists' first nodes; nodes count from 1 */
	struct range_node *chunk[RANGE_CHUNKS];
	uint32_t chunks, used_nodes;    /* number of chunks, and of nodes that were ever used */
	uint32_t spare, spares;         /* the first unused node, and the number of unused nodes */
	uint32_t *begins;                /* for each grain: an allocated part that begins in it */
	/* lowest level: bit n is set if a part begins in grain n; above: if word n of the level
	 * below is not 0 */
	uint64_t *level[RANGE_LEVELS];
	uint32_t levels;
};

/* Makes a range of UNITS units, all free. Returns false if memory is short. */
bool range_init(struct range_allocator *range, struct arena *arena, uint32_t units);
/* Frees all of the allocator's memory, even if parts are allocated. */
void range_finish(struct range_allocator *range);

/* Allocates UNITS units. Returns the first unit, and stores the part's node in *RET_NODE. Returns
 * RANGE_NONE if there is no room, or no memory for nodes. The first unit is a multiple of the
 * smaller of ALIGN_UNITS, a power of two, and UNITS rounded up to a power of two. The search is
 * fast but not complete: it may miss a free part that exceeds the request by less than an eighth,
 * or by less than the alignment. */
uint32_t range_allocate(struct range_allocator *range, uint32_t units, uint32_t align_units,
			uint32_t *ret_node);
void range_free(struct range_allocator *range, uint32_t node);
/* Shrinks the allocated part NODE to its first UNITS, which must be fewer than it has. Returns
 * false if memory is short. */
bool range_shrink(struct range_allocator *range, uint32_t node, uint32_t units);

/* Returns a pointer to a word that the caller may use, one for each allocated part. The word is 0
 * at first. The pointer is valid until NODE is freed. */
uint64_t *range_note(struct range_allocator *range, uint32_t node);

/* Stores the first unit, the size and the node of the allocated part that contains UNIT. Returns
 * false if UNIT is free. */
bool range_lookup(const struct range_allocator *range, uint32_t unit, uint32_t *ret_first,
		  uint32_t *ret_units, uint32_t *ret_node);

/* Returns the size of one of the largest free parts: an allocation of that size without alignment
 * succeeds. Another free part may be up to an eighth larger. */
uint32_t range_largest(const struct range_allocator *range);
