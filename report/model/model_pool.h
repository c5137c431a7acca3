/* SPDX-License-Identifier: MIT
 *
 * What the pool did in a process: one struct per pool, and figures derived from its counters.
 * Must not print.
 */
#ifndef GPULEAK_REPORT_MODEL_POOL_H
#define GPULEAK_REPORT_MODEL_POOL_H

#include <stddef.h>
#include <stdint.h>

#include "ledger/format.h"

struct report_stack;

struct report_refusal {
	const char *api; /* NULL: there was none */
	const struct report_stack *stack; /* never NULL */
};

struct report_pool {
	const char *api;  /* never NULL, as the next */
	const char *kind;
	int device;       /* -1 not known or several */
	const char *mode; /* the mode in use, a word of options.c */
	const char *backend;
	const char *off;  /* why it turned itself off; NULL: it did not */
	struct ledger_pool count; /* its numbers; the refs in it mean nothing here */
};

struct report_pools {
	const char *mode;    /* the mode that was requested: "off", "strict", "fast", "unknown" */
	const char *backend;
	int downgraded;      /* a pool was strict although fast was requested */
	uint64_t limit;      /* GPULEAK_LIMIT in bytes, 0: none, or not the same everywhere */
	uint64_t refused;
	uint64_t injected;   /* failures, by GPULEAK_FAIL_AT */
	struct report_refusal first_refused, first_injected;
	struct report_pool *pools; /* in the order in which they were made */
	size_t count;
	struct ledger_pool sum;    /* numbers of all; of peaks the sum */
};

/* Returns the bytes in use, as the application requested them. */
uint64_t report_pool_used(const struct ledger_pool *pool);
/* Returns how many driver calls the pool avoided. */
uint64_t report_pool_calls_saved(const struct ledger_pool *pool);
/* Returns the number of allocations, served from the cache or by the driver. */
uint64_t report_pool_allocations(const struct ledger_pool *pool);

/* "EXPORTED" ... and the sentence's end, "blocks were ...", of a reason. */
const char *report_pool_reason_word(unsigned int reason);
const char *report_pool_reason_text(unsigned int reason);

#endif
