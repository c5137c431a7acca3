/* SPDX-License-Identifier: MIT
 *
 * An allocator for a range whose memory it never touches: which units are allocated is stored
 * outside the range. Allocation, free and look-up take constant time. Free parts are in lists
 * by size, with two levels of bitmaps for the lists that are not empty; adjacent free parts
 * are merged at once. Counts in units and has no addresses. Locking: the caller's.
 */
#ifndef GPULEAK_OFFSETS_H
#define GPULEAK_OFFSETS_H

#include <stdbool.h>
#include <stdint.h>

#include "interpose/base/arena.h"

#define OFFSETS_NONE UINT32_MAX

#define OFFSETS_BINS 240  /* sizes below 8 units; above, 8 to a doubling */
#define OFFSETS_GROUPS (OFFSETS_BINS / 8)
#define OFFSETS_LEVELS 6  /* of bitmaps, 64 to 1 */
#define OFFSETS_CHUNKS 27 /* of nodes, each twice the one before */

struct offsets_node;

struct offsets {
	struct arena *arena;
	uint32_t units, free_units;
	uint32_t groups;                /* bit g: some list of group g has a part */
	uint8_t lists[OFFSETS_GROUPS];  /* bit i: list 8 * g + i is not empty */
	uint32_t first[OFFSETS_BINS];   /* the lists' first nodes; nodes count from 1 */
	struct offsets_node *chunk[OFFSETS_CHUNKS];
	uint32_t chunks, used_nodes;    /* of the chunks, and nodes that were ever used */
	uint32_t spare, spares;         /* unused nodes */
	uint32_t *begins;                /* an allocated part that begins in this grain */
	uint64_t *level[OFFSETS_LEVELS]; /* bits: there is one; above: in this word */
	uint32_t levels;
};

/* Makes a range of UNITS units, all free. Returns false if memory is short. */
bool offsets_init(struct offsets *offsets, struct arena *arena, uint32_t units);
/* Frees all of the allocator's memory, even if parts are allocated. */
void offsets_finish(struct offsets *offsets);

/* Allocates UNITS units. Returns the first unit, and stores their node. Returns OFFSETS_NONE if
 * there is no room, or no memory for the node. The first unit is a multiple of ALIGN_UNITS, a
 * power of two, or of UNITS rounded up to a power of two if that is less. The fit is good but
 * not the best. Room may be missed if it exceeds the request by less than an eighth, or by less
 * than the alignment. */
uint32_t offsets_take(struct offsets *offsets, uint32_t units, uint32_t align_units,
		      uint32_t *ret_node);
void offsets_give(struct offsets *offsets, uint32_t node);
/* Shrinks an allocated NODE to its first UNITS. Returns false if memory is short. */
bool offsets_cut(struct offsets *offsets, uint32_t node, uint32_t units);

/* Returns a word of the caller's on an allocated NODE, at first 0. The pointer is valid until
 * NODE is freed. */
uint64_t *offsets_note(struct offsets *offsets, uint32_t node);

/* Stores the allocated part around UNIT. Returns false if UNIT is free. */
bool offsets_find(const struct offsets *offsets, uint32_t unit, uint32_t *ret_first,
		  uint32_t *ret_units, uint32_t *ret_node);

static inline uint32_t offsets_free_units(const struct offsets *offsets)
{
	return offsets->free_units;
}

static inline bool offsets_empty(const struct offsets *offsets)
{
	return offsets->free_units == offsets->units;
}

/* Returns a number of units that are free in one piece: an allocation of that size without
 * alignment succeeds. There may be a piece that is up to an eighth larger. */
uint32_t offsets_largest(const struct offsets *offsets);

#endif
