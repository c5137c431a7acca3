/* SPDX-License-Identifier: MIT
 *
 * The first use of each kernel: then the driver may load its code, and allocate local memory and
 * the heaps of printf() and malloc(). Measures that. Inline, because each launch checks whether it
 * is the first one. Any thread may call these functions. Must not allocate or wait.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "interpose/base/hash.h"
#include "interpose/base/hot.h"
#include "interpose/block/driver_growth.h"

/* The handles of the kernels that were used, in two tables. A table consists of lines of 16 marks.
 * A handle's mark is 31 bits of its hash, and other bits of the hash select its line. The first
 * table is small: all kernels of a loop together take few cache lines. A handle goes to the second
 * table if its line in the first one is full.
 *
 * Three sorts of handles count as used although they are not, so what their kernels take is not
 * measured: a handle whose lines are full in both tables; a handle that an unloaded kernel had
 * before; a handle whose mark equals that of another handle in its line (about one handle of
 * 10^8). */
#define FIRST_USE_MARKS 16u /* marks in a line; 16 of 4 bytes fill one cache line */
#define FIRST_USE_LINES 16u
#define FIRST_USE_MORE_LINES 512u
struct first_use_line {
	_Atomic uint32_t mark[FIRST_USE_MARKS]; /* 0: unused */
} __attribute__((aligned(64)));
extern struct first_use_line first_use_lines[FIRST_USE_LINES] __attribute__((visibility("hidden")));

struct first_use {
	struct driver_growth growth;
	uint64_t stack_limit; /* bytes of local memory for each thread, before the call */
};

/* Returns the mark of a handle whose hash is HASH. It is never 0. */
static HOT uint32_t first_use_mark(uint64_t hash)
{
	return (uint32_t)(hash >> 16) | 1;
}

enum first_use_found { FIRST_USE_NEW, FIRST_USE_KNOWN, FIRST_USE_FULL };

/* Returns the place in a line where MARK is searched in the PROBE-th try (from 0). */
static HOT uint32_t first_use_place(uint32_t mark, uint32_t probe)
{
	return (mark / 2 + probe) % FIRST_USE_MARKS;
}

/* Searches for MARK in LINE. */
static HOT enum first_use_found first_use_find(const struct first_use_line *line, uint32_t mark)
{
	for (uint32_t i = 0; i < FIRST_USE_MARKS; i++) {
		uint32_t seen = atomic_load_explicit(&line->mark[first_use_place(mark, i)],
						     memory_order_relaxed);

		if (__builtin_expect(seen == mark, 1))
			return FIRST_USE_KNOWN;
		if (!seen)
			return FIRST_USE_NEW;
	}
	return FIRST_USE_FULL;
}

/* Returns true if the second table has the handle whose hash is HASH, or no room for it. */
bool first_use_is_known_there(uint64_t hash);

static HOT bool first_use_is_known(uint64_t handle)
{
	uint64_t hash = TABLE_MIX(handle);
	enum first_use_found found = first_use_find(&first_use_lines[hash >> 60],
						    first_use_mark(hash));

	if (__builtin_expect(found == FIRST_USE_FULL, 0))
		return first_use_is_known_there(hash);
	return found == FIRST_USE_KNOWN;
}

/* Enters HANDLE into a table. Returns false if another thread has done so. Otherwise begins to
 * measure. */
COLD bool first_use_begin_slowly(struct first_use *ret, uint64_t handle);

/* Before the driver's call that uses HANDLE. Returns true if it is the first such call: then
 * first_use_end() must follow. */
static HOT bool first_use_begin(struct first_use *ret, uint64_t handle)
{
	return __builtin_expect(!first_use_is_known(handle), 0) && handle &&
	       first_use_begin_slowly(ret, handle);
}

/* After the call. DONE: it succeeded. */
COLD void first_use_end(const struct call *call, struct first_use *first, bool done);
