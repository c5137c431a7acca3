/* SPDX-License-Identifier: MIT
 *
 * The live memory of a process now, from its ledger: sums by device and kind, and by call site.
 * Computed repeatedly while the ledger grows, so it looks up symbols of the largest sites only,
 * and each symbol once.
 */
#ifndef GPULEAK_REPORT_LIVE_H
#define GPULEAK_REPORT_LIVE_H

#include <stddef.h>
#include <stdint.h>

#include "report/model/growth_rule.h"
#include "report/model/model.h"

struct trend;

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
	const char *api;
	const char *kind;
	int device;
	uint32_t stack_ref; /* of the ledger: the same for every read, because records do not
			     * move */
	struct live_sum sum;
	struct live_sum before; /* at the previous read; 0: no memory, or no previous read */
	uint64_t allocated, allocated_before; /* bytes so far */
	struct growth_verdict growing; /* over the steps of `gpuleak top` */
	const struct report_stack *stack; /* NULL for sites beyond the requested number */
};

enum live_order {
	LIVE_BY_BYTES,
	LIVE_BY_BLOCKS,
	LIVE_BY_GROWTH, /* bytes since the previous read */
	LIVE_BY_RATE,   /* bytes allocated since then; then sites with nothing left count, too */
};

struct live_look {
	size_t sites; /* how many sites get stacks; growing sites get one in addition */
	enum live_order order;
	struct trend *trend; /* state of the previous read; may be NULL */
	int step; /* `gpuleak top` counts this read as a step */
};

struct live {
	struct report_process *process; /* identity, end, sums, pools; the rest is empty */
	struct live_sum sum;
	struct live_kind *kinds; /* by device, then by name */
	size_t kind_count;
	struct live_site *sites; /* all, in the order asked for */
	size_t site_count;
};

/* 0 with *RET to be destroyed, or -ENOMEM. Stacks are the symbolizer's and the result's. */
int live_build(const struct loaded_ledger *ledger, struct symbolizer *symbolizer,
	       const struct live_look *look, struct live **ret);
void live_destroy(struct live *live); /* NULL is fine */

/* Returns the bytes of the same kind at an earlier read. EARLIER NULL: zero. */
struct live_sum live_kind_in(const struct live *earlier, const struct live_kind *kind);

#endif
