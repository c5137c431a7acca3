/* SPDX-License-Identifier: MIT
 *
 * Writes sentences about ranks that differ from the others. Only ranks.c includes this header.
 */
#ifndef GPULEAK_REPORT_RANKS_ODD_H
#define GPULEAK_REPORT_RANKS_ODD_H

struct ranks;
struct report;

/* Fills in ranks.odd. Call it after the leaks of RANKS are filled in. */
void ranks_find_odd(const struct report *report, struct ranks *ranks);

#endif
