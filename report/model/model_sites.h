/* SPDX-License-Identifier: MIT
 *
 * What was allocated in all, not only what is left: by kind of memory and device, and, where a
 * format asks for it, by call site.
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

/* A file that frames name as their module. */
struct report_module {
	const char *path;
	const char *build_id; /* in hexadecimal; "" unknown */
};

#endif
