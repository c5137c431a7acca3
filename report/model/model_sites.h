/* SPDX-License-Identifier: MIT
 *
 * All memory that a process allocated, including freed blocks: sums by kind and device and, if a
 * format needs them, by call site. Sizes are in bytes.
 */
#ifndef GPULEAK_REPORT_MODEL_SITES_H
#define GPULEAK_REPORT_MODEL_SITES_H

#include <stdbool.h>
#include <stdint.h>

struct report_leak;
struct report_site;

struct report_kind {
	const char *kind;
	int device; /* -1 unknown */
	uint64_t live_blocks, live_bytes; /* leaked, suppressed or in a cache */
	uint64_t allocated_blocks, allocated_bytes;
	uint64_t freed_blocks;
};

/* What one call site of memory allocated, also if all of its blocks were freed. */
struct report_site_sums {
	const struct report_site *site; /* never NULL */
	/* entry in one of the process's lists; NULL: no block of the site is live */
	const struct report_leak *live;
	uint64_t allocated_blocks, allocated_bytes;
	bool again; /* this entry repeats a site for another of its leaks; its allocated_* are 0 */
};

/* A file whose code the process had mapped. It need not be in a stack. */
struct report_module {
	const char *path;
	const char *build_id; /* hexadecimal digits; "" if unknown */
};

#endif
