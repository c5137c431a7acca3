/* SPDX-License-Identifier: MIT
 *
 * Several processes as the ranks of one job: the leaks that they share, and the ranks that
 * differ. A rank may have several processes, because workers inherit its number. Must not print.
 */
#ifndef GPULEAK_REPORT_RANKS_H
#define GPULEAK_REPORT_RANKS_H

#include <stddef.h>
#include <stdint.h>

#include "report/model/model.h"

struct report_arena;

/* The part of a shared leak that one rank leaks. */
struct rank_part {
	size_t rank; /* index into ranks.numbers */
	uint64_t bytes;
	uint64_t blocks;
};

/* One fingerprint at one place in one or more ranks. */
struct rank_leak {
	const struct report_leak *leak; /* one of them */
	struct rank_part *parts;        /* in the order of the ranks */
	size_t count;
	uint64_t bytes; /* totals */
	uint64_t blocks;
	int same_device; /* leak->device holds for all */
};

struct ranks {
	int *numbers; /* ascending */
	size_t count; /* of ranks; below 2: this is no job, and nothing below is filled in */
	int all;      /* every process has a rank */
	size_t leaking; /* ranks with a leak */
	struct rank_leak *leaks; /* largest first */
	size_t leak_count;
	/* Sentences about ranks that differ, the most important first: "only rank 3 leaks 1.0 GiB
	 * at ...". Names in them may hold any bytes. */
	const char **odd;
	size_t odd_count;
	char *ended_badly; /* by rank: killed, or with a status that is not 0 */
	const struct report_leak **shared; /* leaks of processes that other ranks have, too */
	size_t shared_count;
	struct report_arena *arena;
};

/* Looks at REPORT, which must live longer. 0 with *RET to be finished, or -ENOMEM. */
int ranks_find(const struct report *report, struct ranks *ret);

/* The index of rank NUMBER, of one of the report's processes. */
size_t ranks_index(const struct ranks *ranks, int number);

/* Returns true if other ranks have LEAK, too. */
int ranks_shares(const struct ranks *ranks, const struct report_leak *leak);

void ranks_finish(struct ranks *ranks);

#endif
