/* SPDX-License-Identifier: MIT
 *
 * Treats the processes of a report as ranks of one parallel job: finds leaks that several ranks
 * share, and ranks that differ. A rank may have several processes, because worker processes
 * inherit its number. Must not print.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "report/model/model.h"
#include "report/util/report_arena.h"

/* The blocks of a shared leak that belong to one rank. */
struct rank_part {
	size_t rank; /* index into ranks.numbers */
	uint64_t bytes;
	uint64_t blocks;
};

/* All leaks with the same fingerprint and place, with the ranks that have them. */
struct rank_leak {
	const struct report_leak *leak; /* one of these leaks */
	struct rank_part *parts;        /* one part per rank, ordered by rank */
	size_t count;
	uint64_t bytes; /* total of all parts */
	uint64_t blocks;
	bool same_device; /* all of these leaks are on leak->device */
};

struct ranks {
	int *numbers; /* rank numbers, ascending */
	/* number of ranks; below 2 the processes are not a job, and the fields below are empty */
	size_t count;
	bool all;      /* every process has a rank number */
	size_t leaking; /* number of ranks with a leak */
	struct rank_leak *leaks; /* largest first */
	size_t leak_count;
	/* call sites that accumulate, with what they kept; `leak` has what is live */
	struct rank_leak *accumulating;
	size_t accumulating_count;
	/* Sentences about ranks that differ, the most important first: "only rank 3 leaks 1.0 GiB
	 * at ...". Names in them may have any bytes. */
	const char **odd;
	size_t odd_count;
	/* one flag per rank: a process was killed or ended with a status other than 0 */
	char *ended_badly;
	/* leaks of processes, and call sites that accumulate in them, which other ranks also
	 * have */
	struct table shared;
	struct report_arena *arena;
};

/* Returns the ranks of REPORT, which must live longer than they. The caller releases them with
 * ranks_finish(). */
struct ranks ranks_find(const struct report *report);

/* Returns the index of rank NUMBER, which must be a rank of the report. */
size_t ranks_index(const struct ranks *ranks, int number);

/* Returns true if other ranks have LEAK, too. LEAK may be the `live` of a call site that
 * accumulates. */
bool ranks_shares(const struct ranks *ranks, const struct report_leak *leak);

void ranks_finish(struct ranks *ranks);

/* Fills in ranks.odd after the leaks of RANKS are filled in. Only ranks.c calls it. */
void ranks_find_odd(const struct report *report, struct ranks *ranks);
