/* SPDX-License-Identifier: MIT
 *
 * Everything that was allocated, including freed blocks: by kind of memory and device and, if a
 * format needs it, by call site.
 */
#ifndef GPULEAK_REPORT_MODEL_SITES_H
#define GPULEAK_REPORT_MODEL_SITES_H

#include <stdint.h>

struct report_leak;
struct report_stack;

struct report_kind {
	const char *kind;
	int device; /* -1 unknown */
	uint64_t live_blocks, live_bytes; /* leaked, suppressed or held by a cache */
	uint64_t allocated_blocks, allocated_bytes;
	uint64_t freed_blocks;
};

/* One (api, kind, device, stack) of memory, also if all of its blocks were freed. */
struct report_site {
	const char *api;
	const char *kind;
	int device;
	const struct report_stack *stack; /* never NULL */
	const struct report_leak *live; /* in one of the process's lists; NULL: nothing is left */
	uint64_t allocated_blocks, allocated_bytes;
	int again; /* the same site as another one, for another leak: nothing allocated */
};

/* A file that contains code of some frame. */
struct report_module {
	const char *path;
	const char *build_id; /* in hexadecimal; "" unknown */
};

#endif
