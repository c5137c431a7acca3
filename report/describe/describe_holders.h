/* SPDX-License-Identifier: MIT
 *
 * Names holders, that is call sites that held memory, and sums them up by name: by place, by
 * cache or by library. Names are valid UTF-8 without control characters.
 */
#ifndef GPULEAK_REPORT_DESCRIBE_HOLDERS_H
#define GPULEAK_REPORT_DESCRIBE_HOLDERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "report/util/report_arena.h"

struct report_holders;

/* What holders of one name have together. */
struct held {
	const char *name;
	uint64_t bytes, blocks;
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
	HELD_BY_CACHE,   /* "PyTorch caching allocator"; leaves out memory that is in no cache */
	HELD_BY_LIBRARY, /* "libnccl.so.2" */
};

/* Adds up HOLDERS by name. Call held_finish() also after an error. Returns 0 or -ENOMEM. */
int held_sum_up(const struct report_holders *holders, enum held_by by, struct held_list *ret);
void held_finish(struct held_list *held);

/* Prints " 12.0 GiB cache_for (/abs/serve.py:40)", or nothing if BYTES is 0. Prints a comma before
 * it if *ITEMS is not 0. Adds 1 to *ITEMS if it prints something. */
void describe_held_item(FILE *out, size_t *items, uint64_t bytes, const char *name);
/* Prints the three places of HOLDERS that have the most memory, and the sum of the others, each
 * with describe_held_item(). Returns 0 or -ENOMEM. */
int describe_largest_places(FILE *out, size_t *items, const struct report_holders *holders);

#endif
