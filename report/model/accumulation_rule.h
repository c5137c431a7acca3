/* SPDX-License-Identifier: MIT
 *
 * The rule that finds call sites whose suballocations accumulate while the program runs. Depends on
 * numbers, not on ledgers. docs/developers/pytorch.md explains it. Any thread may call it.
 */
#ifndef GPULEAK_REPORT_ACCUMULATION_RULE_H
#define GPULEAK_REPORT_ACCUMULATION_RULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ledger/format.h"
#include "report/model/model_suballocations.h"

/* With fewer allocations of the process no trend is known. */
#define ACCUMULATION_ALLOCS_MIN 64u

struct live_window {
	uint64_t low_blocks, low_bytes;   /* the fewest blocks that were live in the window */
	uint64_t high_blocks, high_bytes; /* the most */
	uint64_t allocs;  /* blocks that the call site had allocated before the window */
	uint64_t time_ns; /* of its first call in the window; 0: there was no call */
};

/* The windows of one call site. All windows have the same number of allocations of the process. */
struct live_windows {
	size_t count; /* complete windows; the one after these ended with the process */
	struct live_window window[LEDGER_WINDOWS];
	uint64_t allocs; /* of the call site until the end */
};

/* The windows of all call sites of the process. */
struct process_windows {
	uint64_t window_allocs;               /* allocations in each window */
	uint64_t low_blocks[LEDGER_WINDOWS];  /* sums over all call sites */
	uint64_t low_bytes[LEDGER_WINDOWS];
	/* call sites that allocate again and again, and those of them whose blocks become larger */
	size_t working_sites, larger_sites;
};

/* Returns true if SITE counts in `working_sites`. */
bool live_windows_work(const struct live_windows *site);
/* Returns true if SITE, a working one, counts in `larger_sites`. */
bool live_windows_become_larger(const struct live_windows *site);

struct accumulation {
	enum report_trend trend;
	uint64_t kept_blocks, kept_bytes;
	double kept_per_second; /* blocks; 0: unknown */
};

struct accumulation accumulation_judge(const struct live_windows *site,
				       const struct process_windows *process);

#endif
