/* SPDX-License-Identifier: MIT
 *
 * A call site: what identifies a call that allocates, wherever the report lists one. The builder
 * interns call sites, so two sites of one process are equal if their pointers are. Also all memory
 * that a process allocated, including freed blocks: sums by kind and device and, if a format needs
 * them, by call site. Sizes are in bytes. Must not include other headers of model/.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct report_site {
	const char *api;  /* never NULL */
	const char *kind; /* of the memory or the object; "unknown" instead of NULL */
	int device;       /* -1 unknown */
	const struct report_stack *stack; /* never NULL; count 0: the stack was not recorded */
	/* as read from a JSON report; 0: compute them with report_site_fingerprint() and
	 * report_site_fingerprint2() */
	uint64_t fingerprint, fingerprint2;
	/* name of the heap of NVTX that all of its blocks are; or NULL */
	const char *heap;
	/* with --by range: "in the range serve", where its blocks were allocated; else NULL */
	const char *range;
	bool in_static_object; /* at exit an object with a destructor had a block's address */
};

/* Returns true if KIND is a kind of object that is not memory. */
bool kind_is_object(const char *kind);

/* Returns the fingerprint of SITE from the JSON report it was read from. Otherwise computes it from
 * api, kind and stack. */
uint64_t report_site_fingerprint(const struct report_site *site);
/* The same for version 2. An older JSON report has only version 1, which is returned then. */
uint64_t report_site_fingerprint2(const struct report_site *site);

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
