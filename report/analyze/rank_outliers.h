/* SPDX-License-Identifier: MIT
 *
 * The odd ones out of a job, in words; for ranks.c alone.
 */
#ifndef GPULEAK_REPORT_RANKS_ODD_H
#define GPULEAK_REPORT_RANKS_ODD_H

struct ranks;
struct report;

/* Fills in the sentences of RANKS, whose leaks are there. 0 or -ENOMEM. */
int ranks_find_odd(const struct report *report, struct ranks *ranks);

#endif
