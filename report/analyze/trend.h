/* SPDX-License-Identifier: MIT
 *
 * What a watcher remembers of a process's sites from look to look: how much they had, and
 * whether they keep growing over steps of the watcher's own, for processes that mark none.
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

/* One look at the COUNT sites at SITES, which get what they had at the look before; a STEP if
 * that is not 0: then they also get a verdict. 0 or -ENOMEM. */
int trend_look(struct trend *trend, struct live_site *sites, size_t count, int step);
void trend_finish(struct trend *trend);

#endif
