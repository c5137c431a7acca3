/* SPDX-License-Identifier: MIT
 *
 * An allocator for a range whose memory it never touches: which units are allocated is stored
 * outside the range. Allocation, free and look-up take constant time. Free parts are in lists
 * by size, with two levels of bitmaps for the lists that are not empty; adjacent free parts
 * are merged at once. Counts in units and has no addresses. Locking: the caller's.
 */
#ifndef GPULEAK_RANGE_ALLOCATOR_H
#define GPULEAK_RANGE_ALLOCATOR_H

#include <stdbool.h>
#include <stdint.h>

#include "interpose/base/arena.h"

#define RANGE_NONE UINT32_MAX

#define RANGE_BINS 240  /* sizes below 8 units; above, 8 to a doubling */
#define RANGE_GROUPS (RANGE_BINS / 8)
#define RANGE_LEVELS 6  /* of bitmaps, 64 to 1 */
#define RANGE_CHUNKS 27 /* of nodes, each twice the one before */

struct range_node;

struct range_allocator {
	struct arena *arena;
	uint32_t units, free_units;
	uint32_t groups;                /* bit g: some list of group g has a part */
	uint8_t lists[RANGE_GROUPS];  /* bit i: list 8 * g + i is not empty */
	uint32_t first[RANGE_BINS];   /* the lists' first nodes; nodes count from 1 */
	struct range_node *chunk[RANGE_CHUNKS];
	uint32_t chunks, used_nodes;    /* of the chunks, and nodes that were ever used */
	uint32_t spare, spares;         /* unused nodes */
	uint32_t *begins;                /* an allocated part that begins in this grain */
	uint64_t *level[RANGE_LEVELS]; /* bits: there is one; above: in this word */
	uint32_t levels;
};

/* Makes a range of UNITS units, all free. Returns false if memory is short. */
bool range_init(struct range_allocator *range, struct arena *arena, uint32_t units);
/* Frees all of the allocator's memory, even if parts are allocated. */
void range_finish(struct range_allocator *range);

/* Allocates UNITS units. Returns the first unit, and stores their node. Returns RANGE_NONE if
 * there is no room, or no memory for the node. The first unit is a multiple of ALIGN_UNITS, a
 * power of two, or of UNITS rounded up to a power of two if that is less. The fit is good but
 * not the best. Room may be missed if it exceeds the request by less than an eighth, or by less
 * than the alignment. */
uint32_t range_allocate(struct range_allocator *range, uint32_t units, uint32_t align_units,
			uint32_t *ret_node);
void range_free(struct range_allocator *range, uint32_t node);
/* Shrinks an allocated NODE to its first UNITS. Returns false if memory is short. */
bool range_shrink(struct range_allocator *range, uint32_t node, uint32_t units);

/* Returns a word of the caller's on an allocated NODE, at first 0. The pointer is valid until
 * NODE is freed. */
uint64_t *range_note(struct range_allocator *range, uint32_t node);

/* Stores the allocated part around UNIT. Returns false if UNIT is free. */
bool range_lookup(const struct range_allocator *range, uint32_t unit, uint32_t *ret_first,
		  uint32_t *ret_units, uint32_t *ret_node);

static inline uint32_t range_free_units(const struct range_allocator *range)
{
	return range->free_units;
}

static inline bool range_is_empty(const struct range_allocator *range)
{
	return range->free_units == range->units;
}

/* Returns a number of units that are free in one piece: an allocation of that size without
 * alignment succeeds. There may be a piece that is up to an eighth larger. */
uint32_t range_largest(const struct range_allocator *range);

#endif
