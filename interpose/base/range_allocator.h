/* SPDX-License-Identifier: MIT
 *
 * Parts of a range whose memory can't be touched from here: which units of it are taken, kept
 * outside of it. Take, give and find cost the same however many parts there are: free parts
 * hang in lists by size (two levels of bitmaps say which lists have any), neighbours are linked
 * and merge at once. Knows units only, no addresses. Not thread-safe: the caller locks.
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
	uint8_t lists[OFFSETS_GROUPS];  /* bit i: list 8 * g + i has */
	uint32_t first[OFFSETS_BINS];   /* the lists' first nodes; nodes count from 1 */
	struct offsets_node *chunk[OFFSETS_CHUNKS];
	uint32_t chunks, used_nodes;    /* of the chunks, and nodes ever in use */
	uint32_t spare, spares;         /* nodes in use no more */
	uint32_t *begins;                /* a taken part that begins in this grain of units */
	uint64_t *level[OFFSETS_LEVELS]; /* bits: there is one; above: in this word */
	uint32_t levels;
};

/* UNITS units, all free. False: there is no memory for it, and nothing was made. */
bool offsets_init(struct offsets *offsets, struct arena *arena, uint32_t units);
/* Gives back all memory, whatever is taken. */
void offsets_finish(struct offsets *offsets);

/* Where UNITS units are free from now on taken, and their node; OFFSETS_NONE where there is no
 * room, or no memory to remember it. The place is a multiple of ALIGN_UNITS (a power of two) or,
 * where that is less, of UNITS rounded up to a power of two. Fits are good, not best: room may
 * be missed that is less than an eighth, or than the alignment, larger than what is asked for. */
uint32_t offsets_take(struct offsets *offsets, uint32_t units, uint32_t align_units,
		      uint32_t *ret_node);
void offsets_give(struct offsets *offsets, uint32_t node);
/* A taken NODE keeps its first UNITS, fewer than it has. False: there is no memory for that. */
bool offsets_cut(struct offsets *offsets, uint32_t node, uint32_t units);

/* A word of the caller's on a taken NODE, 0 at first; the pointer is good until it is given. */
uint64_t *offsets_note(struct offsets *offsets, uint32_t node);

/* The taken part that UNIT lies in. */
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

/* As many units in one piece are free: a take without alignment gets them. There may be a
 * piece that is up to an eighth larger. */
uint32_t offsets_largest(const struct offsets *offsets);

#endif
