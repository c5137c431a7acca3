/* SPDX-License-Identifier: MIT
 *
 * Sentences about ranks that differ from the others. Only ranks.c includes this.
 */
#ifndef GPULEAK_REPORT_RANKS_ODD_H
#define GPULEAK_REPORT_RANKS_ODD_H

struct ranks;
struct report;

/* Fills in the sentences of RANKS, after its leaks. 0 or -ENOMEM. */
int ranks_find_odd(const struct report *report, struct ranks *ranks);

#endif
