/* SPDX-License-Identifier: MIT
 *
 * Error records of invalid frees: one function for each type. Each returns the ref of its record,
 * or 0 if the ledger has no room; then the error is only counted.
 */
#pragma once

#include "interpose/block/block_types.h"

/* A block that an address or handle had before, and its end. */
struct past {
	uint32_t site;       /* ref of its call site */
	uint32_t freed_api;  /* string ref; 0 = there was no such block */
	uint32_t freed_stack;
	uint32_t by_context; /* it ended with its context */
	uint64_t bytes;
	uint64_t made_ns;
	uint64_t freed_ns;
};

struct free_error {
	struct hook *hook;
	uint64_t address;
	uint32_t stack;
	int result;
	uint32_t flags;       /* as in struct ledger_error */
	uint64_t asked_bytes;
};

#define ERRORS_MAX 4096 /* further errors are only counted */

/* Writes ERROR of TYPE, an error of HOOK's call, with the present time. */
uint32_t error_write(struct recorder *recorder, const char *type, struct hook *hook,
		     struct ledger_error *error);
/* Stores in RET the block LIVE, or PAST, which had ADDRESS. */
void error_tell_live(struct recorder *recorder, const struct ledger_block *live,
		     struct ledger_error *ret);
void error_tell_past(struct recorder *recorder, uint64_t address, const struct past *past,
		     struct ledger_error *ret);
/* Counts an error that gets no record. Returns 0. */
uint32_t error_only_counted(struct recorder *recorder);

/* The last block at the address was PAST[0], and the one before was PAST[1]. */
uint32_t error_double_free(struct recorder *recorder, const struct free_error *wrong,
			   const struct past past[2]);
/* LIVE, a copy of a block that is still allocated, explains the error of TYPE:
 * ERROR_INTERIOR: the address lies inside LIVE.
 * ERROR_MISMATCHED: LIVE must be freed by another call.
 * ERROR_WHILE_MAPPED: the call freed a reservation, and the mapping LIVE lies in it.
 * WRONG->asked_bytes of it are mapped. */
#define ERROR_INTERIOR "interior-free"
#define ERROR_MISMATCHED "mismatched-free"
#define ERROR_WHILE_MAPPED "freed-while-mapped"
uint32_t error_of_live(struct recorder *recorder, const char *type, const struct free_error *wrong,
		       const struct ledger_block *live);
uint32_t error_invalid_free(struct recorder *recorder, const struct free_error *wrong);

/* Retracts the record REF, which turned out to be no error. Its place in the ledger stays empty, so
 * the number of retractions is limited. Call error_may_retract() before you make such a record. */
bool error_may_retract(struct recorder *recorder);
void error_retract(struct recorder *recorder, uint32_t ref);
