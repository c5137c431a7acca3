/* SPDX-License-Identifier: MIT
 *
 * The rule that finds call sites whose suballocations accumulate while the program runs. Depends on
 * numbers, not on ledgers. docs/developers/pytorch.md explains it. Any thread may call it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ledger/format.h"
#include "report/model/model_suballocations.h"

/* If the process made fewer allocations in its complete windows, the trend is TREND_UNKNOWN. */
#define ACCUMULATION_ALLOCS_MIN 64u

/* What one call site did in one window. A window is a part of the run in which the process makes a
 * fixed number of allocations. */
struct live_window {
	uint64_t low_blocks, low_bytes;   /* the fewest blocks that were live in the window */
	uint64_t high_blocks, high_bytes; /* the most blocks that were live in it */
	uint64_t allocs;  /* blocks that the call site had allocated before the window */
	uint64_t time_ns; /* time of its first call in the window; 0: there was no call */
};

/* The windows of one call site. The process makes the same number of allocations in each window. */
struct live_windows {
	/* number of complete windows; window[count] is the one in which the process ended */
	size_t count;
	struct live_window window[LEDGER_WINDOWS];
	uint64_t allocs; /* number of allocations of the call site until the end of the process */
};

/* The windows of all call sites of the process. */
struct process_windows {
	uint64_t window_allocs;               /* allocations in each window */
	uint64_t low_blocks[LEDGER_WINDOWS];  /* sums over all call sites */
	uint64_t low_bytes[LEDGER_WINDOWS];
	/* call sites that allocate in at least half of the windows, and those of them whose blocks
	 * become larger */
	size_t working_sites, larger_sites;
};

/* Returns true if SITE counts in `working_sites`. */
bool live_windows_work(const struct live_windows *site);
/* Returns true if SITE, which counts in `working_sites`, also counts in `larger_sites`. */
bool live_windows_become_larger(const struct live_windows *site);

struct accumulation {
	enum report_trend trend;
	uint64_t kept_blocks, kept_bytes; /* 0 if the trend is unknown or constant */
	double kept_per_second; /* blocks; 0: unknown */
};

struct accumulation accumulation_judge(const struct live_windows *site,
				       const struct process_windows *process);
