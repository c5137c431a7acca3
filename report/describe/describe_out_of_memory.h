/* SPDX-License-Identifier: MIT
 *
 * Words for allocations that ran out of memory: the line that names the request and the largest
 * holders, and sums by cache and by library. All formats use them. Prints valid UTF-8 without
 * control characters.
 */
#ifndef GPULEAK_REPORT_DESCRIBE_OUT_OF_MEMORY_H
#define GPULEAK_REPORT_DESCRIBE_OUT_OF_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "report/util/report_arena.h"

struct report_leak;
struct report_out_of_memory;
struct report_process;

/* What holders of one name have together. */
struct held {
	const char *name;
	uint64_t bytes, blocks;
	uint64_t hash; /* of the name */
};
struct held_list {
	struct held *list; /* largest first */
	size_t count;
	struct report_arena arena;
};

enum held_by {
	HELD_BY_PLACE,   /* "KV_cache (/abs/serve.py:40)", a library, or a cache's unused part */
	HELD_BY_CACHE,   /* "PyTorch caching allocator"; leaves out what no cache holds */
	HELD_BY_LIBRARY, /* "libnccl.so.2" */
};

/* Adds up the holders of ENTRY. Call held_finish() also after an error. Returns 0 or -ENOMEM. */
int held_sum_up(const struct report_out_of_memory *entry, enum held_by by, struct held_list *ret);
void held_finish(struct held_list *held);

/* Returns who refused the request: "driver", "GPULEAK_LIMIT", "GPULEAK_FAIL_AT", or the
 * framework. */
const char *out_of_memory_refuser(const struct report_out_of_memory *entry);

/* Returns the bytes that the program wanted: a framework asks the driver for more. 0: unknown. */
uint64_t out_of_memory_wanted(const struct report_out_of_memory *entry);

/* Returns true if HOLDER is the part of a framework's blocks that its suballocations do not use. */
bool out_of_memory_is_unused(const struct report_out_of_memory *entry,
			     const struct report_leak *holder);

/* Stores the bytes of the device that neither PROCESS's holders have nor are free: the driver's and
 * other processes'. Returns false if that is not known. */
bool out_of_memory_rest(const struct report_out_of_memory *entry, uint64_t *ret);

/* Prints "2.0 GiB wanted at decode (/abs/serve.py:88); held: 61.0 GiB KV_cache (/abs/serve.py:40),
 * 3.1 GiB libnccl.so.2, 2.2 GiB driver". Returns 0 or -ENOMEM. */
int describe_out_of_memory(FILE *out, const struct report_process *process,
			   const struct report_out_of_memory *entry);

#endif
