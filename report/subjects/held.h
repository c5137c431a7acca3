/* SPDX-License-Identifier: MIT
 *
 * Holders, that is call sites that held memory at one moment: when memory ran out, and at a peak.
 * Sums them up by name: by place, by cache or by library. Names are valid UTF-8 without control
 * characters.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "report/util/report_arena.h"

struct build_site;
struct builder;
struct ledger_site;
struct report_frame;
struct report_holders;
struct site_list;
struct subject_view;

/* ---- reading ---- */

/* Returns the holder of BYTES in BLOCKS of SITE. */
struct report_leak build_holder(const struct build_site *site, uint64_t bytes, uint64_t blocks);
/* The amounts of call sites, as a list for the three functions. The second adds BYTES in BLOCKS of
 * SITE; INSIDE: they are suballocations, inside of blocks. The last one makes holders of the
 * largest, and adds up the others. It stores in SUMS[0] the bytes of blocks, and in SUMS[1] the
 * bytes of suballocations. */
struct site_list held_sites(struct builder *b);
void held_site_add(struct site_list *sites, const struct ledger_site *site, bool inside,
		   uint64_t bytes, uint64_t blocks);
void held_sites_list(const struct site_list *sites, struct report_holders *held, uint64_t sums[2]);
/* Adds up holders in HELD with the same place, and sorts them. */
void report_merge_holders(struct report_holders *held);

/* Subtracts the INSIDE bytes of suballocations from the blocks that have them. It is not recorded
 * which blocks of a cache these are. So the bytes are subtracted from the cache as a whole, and
 * what remains is one holder. If no call stack shows which blocks are the cache's, the bytes are
 * subtracted from the largest holders. */
void report_divide_holders(struct builder *b, struct report_holders *held, uint64_t inside);

/* Returns true if HOLDER is the part of a framework's blocks that its suballocations do not use. */
bool report_holder_is_unused(const struct report_holders *held, const struct report_leak *holder);

/* Returns a name for the code that made the blocks of HOLDER: the file name of the module of the
 * innermost frame whose role is not FRAME_RUNTIME. NULL: unknown. */
const char *report_holder_library(const struct report_leak *holder);

/* ---- text and JSON ---- */

/* What holders of one name have together. */
struct held {
	const char *name;
	uint64_t bytes, blocks;
	const struct report_leak *largest;
	uint64_t hash; /* of the name */
	bool is_unused; /* the part of a cache that no suballocation uses */
};
struct held_list {
	struct held *list; /* largest first */
	size_t count;
	struct report_arena arena;
};

enum held_by {
	HELD_BY_PLACE,   /* "KV_cache (/abs/serve.py:40)", a library, or a cache's unused part */
	HELD_BY_OWNER,   /* the same, but a cache by its name: its memory may have many users */
	HELD_BY_CACHE,   /* "PyTorch caching allocator"; leaves out memory that is in no cache */
	HELD_BY_LIBRARY, /* "libnccl.so.2" */
};

/* Chooses the frame that names each holder. Many programs allocate through one function of their
 * own, for example one that checks for errors. All holders would then be named after this function,
 * so they are named after its callers instead. RET is an array with one element per holder. Stores
 * in each the frame of the caller that names the holder, or NULL if describe_place() names it. */
void holder_frames_choose(const struct report_holders *held, const struct report_frame **ret);

/* Adds up HOLDERS by name. The caller releases the list with held_finish(). */
struct held_list held_sum_up(const struct report_holders *holders, enum held_by by, bool whole);
void held_finish(struct held_list *held);

/* Prints " 12.0 GiB cache_for (/abs/serve.py:40)", or nothing if BYTES is 0. Prints a comma before
 * it if *ITEMS is not 0. Adds 1 to *ITEMS if it prints something. */
void describe_held_item(FILE *out, size_t *items, uint64_t bytes, const char *name);
/* Prints the three places of HOLDERS that have the most memory, and the sum of the others, each
 * with describe_held_item(). */
void describe_largest_places(FILE *out, size_t *items, const struct report_holders *holders,
			     bool whole);

/* Prints a line for each of the largest holders. If VERBOSE is set, prints all holders, and the
 * sums by cache and by library. */
void describe_holders(FILE *out, const struct report_holders *holders, bool verbose);

/* Returns the JSON of HOLDER, one of HOLDERS. */
json_t *json_holder(const struct report_leak *holder, const struct report_holders *holders,
		    const struct subject_view *view);
/* Sets the keys of HOLDERS in OBJECT. */
void json_add_holders(json_t *object, const struct report_holders *holders,
		      const struct subject_view *view);
