/* SPDX-License-Identifier: MIT
 *
 * Wrong frees: which sort it was, and the record with all that is known.
 */
#ifndef GPULEAK_ERRORS_H
#define GPULEAK_ERRORS_H

#include "interpose/block/blocks.h"

/* One generation of an address that is over. */
struct past {
	uint32_t row;        /* ledger row of the block: who made it */
	uint32_t freed_api;  /* string ref; 0 = no such generation */
	uint32_t freed_stack;
	uint32_t by_context; /* it ended with its context */
	uint64_t bytes;
	uint64_t made_ns;
	uint64_t freed_ns;
};

struct wrong_free {
	struct hook *hook;
	uint64_t address;
	uint32_t stack;
	int result;
	uint32_t flags;       /* as in struct ledger_error */
	uint64_t asked_bytes;
};

#define ERRORS_MAX 4096 /* records; further ones are only counted */

/* ADDRESS held PAST[0] last and PAST[1] before it. Returns the record's ref, 0 if there
 * was no room. */
uint32_t error_double_free(struct recorder *recorder, const struct wrong_free *wrong,
			   const struct past past[2]);
/* ADDRESS lies inside LIVE (a copy). */
uint32_t error_interior_free(struct recorder *recorder, const struct wrong_free *wrong,
			     const struct ledger_block *live);
/* LIVE (a copy) is ended by other calls than this one. */
uint32_t error_mismatched_free(struct recorder *recorder, const struct wrong_free *wrong,
			       const struct ledger_block *live);
uint32_t error_invalid_free(struct recorder *recorder, const struct wrong_free *wrong);

/* Takes a record back, which turned out to be about no error. Its place stays empty: a process
 * may do so only so often. */
bool error_may_retract(struct recorder *recorder);
void error_retract(struct recorder *recorder, uint32_t ref);

#endif
