/* SPDX-License-Identifier: MIT
 *
 * What the pool did in a process, as its ledger says: one struct a pool, and what follows
 * from its counters. Prints nothing.
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
	const char *mode; /* in force: a word of options.c */
	const char *backend;
	const char *off;  /* why it turned itself off; NULL: it did not */
	struct ledger_pool count; /* its numbers; the refs in it mean nothing here */
};

struct report_pools {
	const char *mode;    /* that was asked for: "off", "strict", "fast", "unknown" */
	const char *backend;
	int downgraded;      /* a pool had to be strict where fast was asked for */
	uint64_t limit;      /* GPULEAK_LIMIT in bytes, 0: none, or not the same everywhere */
	uint64_t refused;
	uint64_t injected;   /* failures, by GPULEAK_FAIL_AT */
	struct report_refusal first_refused, first_injected;
	struct report_pool *pools; /* in the order in which they were made */
	size_t count;
	struct ledger_pool sum;    /* numbers of all; of peaks the sum */
};

/* As the application asked for them. */
uint64_t report_pool_used(const struct ledger_pool *pool);
/* Calls of the driver that there would have been without the pool. */
uint64_t report_pool_calls_saved(const struct ledger_pool *pool);
/* Served by it, and by the driver for it. */
uint64_t report_pool_allocations(const struct ledger_pool *pool);

/* "EXPORTED" ... and the sentence's end, "blocks were ...", of a reason. */
const char *report_pool_reason_word(unsigned int reason);
const char *report_pool_reason_text(unsigned int reason);

#endif
