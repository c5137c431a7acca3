/* SPDX-License-Identifier: MIT
 *
 * What the levels of the guard share: which levels are on, the counters of the ledger's record, and
 * errors. A level is chosen at the process's start and stays.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "interpose/base/config.h"
#include "interpose/block/block_ranges.h"
#include "interpose/block/call.h"

#define GUARD_BLOCKS (GUARD_PAGES | GUARD_PATTERNS) /* the levels that change blocks */

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

/* The ledger's record; NULL if nothing is recorded. */
struct ledger_guard *guard_record(void);
/* Adds AMOUNT to FIELD of the record. The caller may be inside the recorder or outside. */
#define GUARD_COUNT(field, amount)                                                          \
	do {                                                                                \
		struct ledger_guard *guard_counted = guard_record();                        \
		if (guard_counted)                                                          \
			shared_add(guard_counted->field, amount);                           \
	} while (0)
#define guard_count_unguarded(reason) GUARD_COUNT(unguarded[reason], 1)
void guard_count_block(uint64_t bytes);

/* Locking: the caller holds no lock and is outside the recorder. Returns true if a frame of the
 * calling thread's stack lies in a library of GPULEAK_GUARD_EXCLUDE. */
bool guard_is_excluded(const struct call *call);

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

/* Locking: as guard_error(). Adds to ERROR the block that has KEY, or had it last, at ADDRESS. */
enum range_state guard_tell_block(struct recorder *recorder, uint64_t key, uint64_t address,
				  struct ledger_error *error);

/* Stores the driver's RESULT in the error REF. The caller is outside the recorder. */
void guard_answered(uint32_t ref, int result);
