/* SPDX-License-Identifier: MIT
 *
 * The counters of a process's pools, and values derived from them. Must not print. See struct
 * ledger_pool for units.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ledger/format.h"

struct report_refusal {
	const char *api; /* the refused call; NULL: no call was refused */
	const struct report_stack *stack; /* never NULL */
};

struct report_pool {
	const char *api;  /* never NULL, and neither is `kind` */
	const char *kind;
	int device;       /* -1 unknown or several */
	const char *mode; /* the mode in effect; a word of ledger/options.c */
	const char *backend;
	const char *off;  /* why the pool turned itself off; NULL: it is on */
	struct ledger_pool count; /* the counters; the refs in it are not valid here */
};

struct report_pools {
	const char *mode;    /* the requested mode: "off", "strict", "fast", "unknown" */
	const char *backend;
	bool downgraded;      /* the user requested fast, but a pool is strict */
	/* GPULEAK_LIMIT in bytes, 0: no limit, or it differs between devices */
	uint64_t limit;
	uint64_t refused;
	uint64_t injected;   /* allocations failed because of GPULEAK_FAIL_AT */
	struct report_refusal first_refused, first_injected;
	struct report_pool *pools; /* in the order of their creation */
	size_t count;
	struct ledger_pool sum;    /* sums over all pools; a peak is the sum of the pools' peaks */
};

/* Returns the bytes in use, as the application requested them. */
uint64_t report_pool_used(const struct ledger_pool *pool);
/* Returns how many driver calls the pool avoided. */
uint64_t report_pool_calls_saved(const struct ledger_pool *pool);
/* Returns the number of allocations served by the pool's cache or by the driver. */
uint64_t report_pool_allocations(const struct ledger_pool *pool);
