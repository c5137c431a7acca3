/* SPDX-License-Identifier: MIT
 *
 * The live memory of a process now, from its ledger: sums by device and kind, and by call site.
 * `gpuleak top` computes it repeatedly while the ledger grows. So it looks up symbols only for
 * the largest sites, and each symbol once. Sizes are in bytes. Not thread-safe.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "report/model/growth_rule.h"
#include "report/model/model.h"

struct loaded_ledger;
struct symbolizer;

struct live_sum {
	uint64_t bytes;
	uint64_t blocks;
};

struct live_kind {
	const char *kind;
	int device; /* -1 unknown */
	struct live_sum sum;
};

struct live_site {
	/* Objects that are not memory grow by their number. The stack is NULL for sites beyond
	 * live_options.sites that do not grow. */
	const struct report_site *site;
	/* of its first record in the ledger; the same at every read, because records do not move */
	uint32_t ref;
	struct live_sum sum;
	struct live_sum before; /* at the previous read; 0: no memory, or no previous read */
	/* bytes allocated since the start, now and at the previous read */
	uint64_t allocated, allocated_before;
	/* result of the growth rule for the steps that `gpuleak top` counts */
	struct growth_verdict growing;
};

enum live_order {
	LIVE_BY_BYTES,
	LIVE_BY_BLOCKS,
	LIVE_BY_GROWTH, /* by bytes gained since the previous read */
	/* by bytes allocated since the previous read, including sites without live blocks */
	LIVE_BY_RATE,
};

struct live_options {
	size_t sites; /* number of sites with a stack; growing sites have a stack, too */
	enum live_order order;
	struct trend *trend; /* state from the previous read; may be NULL */
	bool step; /* this read is a step for the growth rule */
};

/* How a frame is shown. */
struct live_view {
	size_t sites;   /* number of call sites, which must have stacks */
	size_t columns; /* of the screen; 0: no limit */
	enum live_order order; /* its column is shown on the narrowest screen, too */
};

struct live {
	/* only identity, end, sums, pools, growth and suballocations are filled in */
	struct report_process *process;
	struct live_sum sum;
	struct live_kind *kinds; /* ordered by device, then by name */
	size_t kind_count;
	struct live_site *sites; /* all sites, in the requested order */
	size_t site_count;
	size_t object_count; /* call sites of objects, which follow those of memory in `sites` */
};

/* Computes the live memory; the caller destroys it. Stacks belong to the symbolizer and to the
 * result. */
struct live *live_build(const struct loaded_ledger *ledger, struct symbolizer *symbolizer,
			const struct live_options *look);
void live_destroy(struct live *live); /* LIVE may be NULL */

/* Stores in *RET the next call site that keeps growing, and returns true. Returns false if there
 * are no more. *AT starts as 0. The steps are those that the process marks. If it marks none, each
 * read of `gpuleak top` that counts as a step is one, and then *RET has only the site and its
 * growth. */
bool live_next_suspect(const struct live *live, size_t *at, struct report_suspect *ret);

/* Returns the sum that EARLIER has for the same kind and device; zero if EARLIER is NULL. */
struct live_sum live_kind_in(const struct live *earlier, const struct live_kind *kind);
