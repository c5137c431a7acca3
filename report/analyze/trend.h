/* SPDX-License-Identifier: MIT
 *
 * The state of `gpuleak top` between reads: how much each call site had, and if it keeps growing
 * over steps that top counts itself, for processes that mark no steps.
 */
#ifndef GPULEAK_REPORT_TREND_H
#define GPULEAK_REPORT_TREND_H

#include <stddef.h>

#include "report/model/growth_rule.h"
#include "report/util/report_arena.h"

struct live_site;

struct trend { /* all zero: nothing was seen */
	struct report_arena arena;
	struct table sites;
	struct trend_site *first;
	unsigned int looks, steps;
};

/* Updates the state with the COUNT SITES of one read and fills in their previous sizes. If STEP is
 * not 0, also decides which of them keep growing. 0 or -ENOMEM. */
int trend_look(struct trend *trend, struct live_site *sites, size_t count, int step);
void trend_finish(struct trend *trend);

#endif
