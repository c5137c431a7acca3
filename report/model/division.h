/* SPDX-License-Identifier: MIT
 *
 * Where suballocations lie in blocks, now or when a request was refused. Must not decide what that
 * means.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct builder;
struct ledger_out_of_memory;
struct ledger_segment;
struct ledger_site;
struct report_places;

/* The memory of a block. */
struct extent {
	uint64_t start, end; /* of a handle: its number, and 0 */
	uint64_t left;       /* bytes that no suballocation has taken yet */
	uint64_t bytes;
	uint64_t parent;     /* see struct ledger_block */
	int device;          /* -1 unknown */
	bool captured;       /* LEDGER_BLOCK_CAPTURED */
	uint64_t time_ns;    /* of the allocation */
	const struct ledger_segment *segment; /* for the caller; NULL: unknown */
	const struct ledger_site *site;
	/* of a mapping whose bytes count at the block of its handle: that block; else NULL */
	struct extent *handle;
	struct report_leak *group; /* NULL: the report does not list the block */
	size_t first_share, share_count; /* for the caller */
};

struct extents {
	struct extent *list;
	size_t count;
};

/* A live suballocation. */
struct part {
	uint64_t start, end;
	int device;
	const struct ledger_site *site; /* NULL: it cannot be read */
	struct report_places *of; /* of its call site; NULL: the report does not list it */
};

/* The bytes that a suballocation took of an extent. */
struct part_use {
	struct extent *extent;
	const struct ledger_site *site;
	uint64_t bytes;
	bool is_first; /* the other uses of this suballocation are not */
};

struct division {
	struct builder *b;
	/* Extents of handles, and ranges of addresses. A range with a handle is no memory of its
	 * own. */
	struct extents ranges, handles;
	struct part *parts;
	size_t part_count;
	struct part_use *uses;
	size_t use_count;
	const struct part *last; /* the one that the last use belongs to */
};

/* Divides the blocks as they were at the refusal RECORD; NULL: as they are now. Returns false if it
 * is not known. In any case, the caller releases *RET with division_finish(). */
bool division_begin(struct division *ret, struct builder *b,
		    const struct ledger_out_of_memory *record);
void division_finish(struct division *d);

/* For SORT(): compares the first two numbers, of an extent or a part its start and end. */
int compare_ranges(const void *left, const void *right);
