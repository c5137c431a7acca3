/* SPDX-License-Identifier: MIT
 *
 * Compares, for each call site of a ledger, the sums of its two balances with the sums over its
 * slots: of blocks, and of suballocations.
 */
#ifndef GPULEAK_TESTS_TORTURE_BALANCES_H
#define GPULEAK_TESTS_TORTURE_BALANCES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct balances {
	uint64_t sites, blocks, suballocations; /* that were compared */
	uint64_t unsteady; /* call sites that changed meanwhile: not compared */
	uint64_t hidden;   /* blocks that are deferred frees, or ignored */
	uint64_t differ;   /* sums that differ */
	char first[200];   /* the first of them */
};

/* Compares what the file PATH has. SLACK is the number of threads that may be in the middle of a
 * call: by so many blocks a call site may differ. Returns false if the file cannot be read. */
bool balances_compare(const char *path, unsigned int slack, struct balances *ret);

#endif
