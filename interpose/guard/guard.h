/* SPDX-License-Identifier: MIT
 *
 * What the levels of the guard share: which levels are on, the counters of the ledger's record, and
 * errors. A level is chosen at the process's start and stays.
 */
#ifndef GPULEAK_GUARD_H
#define GPULEAK_GUARD_H

#include <stdbool.h>
#include <stdint.h>

#include "interpose/base/config.h"
#include "interpose/block/call.h"

/* Returns true if one of LEVELS, a set of enum option_guard, is on. */
static inline bool guard_has(unsigned int levels)
{
	return ((unsigned int)config.guard & levels) != 0;
}

/* Why a block is not guarded. */
enum guard_not {
#define X(name, words) GUARD_NOT_##name,
	LEDGER_GUARD_REASONS(X)
#undef X
	GUARD_NOT_COUNT
};
_Static_assert(GUARD_NOT_COUNT <= LEDGER_GUARD_REASONS_MAX, "the record has room for each reason");

#define GUARD_ERRORS_MAX 512 /* different errors; further ones are only counted */

/* Part of the recorder. */
struct guard_state {
	struct lock lock; /* guards `error` and `errors` */
	_Atomic(struct ledger_guard *) record; /* NULL: no level is on, or the ledger is full */
	unsigned int errors;
	uint32_t error[GUARD_ERRORS_MAX]; /* refs of struct ledger_error */
};

/* Writes the record for the levels that are on. Called when RECORDER is made. */
void guard_start(struct recorder *recorder);

/* ---- counters. The caller may be inside the recorder or outside; they do nothing if nothing is
 * recorded. ---- */

void guard_count_block(uint64_t bytes);
void guard_count_unguarded(enum guard_not reason);
void guard_count_unknown_launch(void);
/* Counts COUNT checks, which took NS nanoseconds together; 0: not measured. */
void guard_count_checks(uint64_t count, uint64_t ns);

/* ---- errors ---- */

#define ERROR_COPY_OUT "copy-out-of-bounds"
#define ERROR_COPY_FREED "copy-after-free"
#define ERROR_WRITE_OUT "write-out-of-bounds"
#define ERROR_WRITE_FREED "write-after-free"
#define ERROR_ACCESS_FAULT "access-fault"

/* Locking: the caller holds no lock and is inside RECORDER. Records ERROR of TYPE: an access by
 * HOOK's call. The caller has filled in what is known of `stack`, `result`, `address` and
 * `asked_bytes` (the accessed range), `flags`, `kind`, `device` and the block with `allocated` and
 * `freed`. If an error of the same type, call, stack, allocation and free is recorded, adds 1 to
 * its count. Returns its ref, or 0 if it is only counted. */
uint32_t guard_error(struct recorder *recorder, const char *type, struct hook *hook,
		     struct ledger_error *error);

/* Stores the driver's RESULT in the error REF. The caller is outside the recorder. */
void guard_answered(uint32_t ref, int result);

#endif
