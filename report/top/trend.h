/* SPDX-License-Identifier: MIT
 *
 * The state of `gpuleak top` between reads: the previous size of each call site, and its sizes
 * at the last steps. `gpuleak top` counts steps itself, because many processes mark none.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "report/model/growth_rule.h"
#include "report/util/report_arena.h"

struct live_site;

struct trend { /* all zero: no read yet */
	struct report_arena arena;
	struct table sites;
	struct trend_site *first;
	unsigned int reads, steps;
};

/* Updates the state with the COUNT SITES of one read, and fills in their sizes at the previous
 * read. If STEP is not 0, also applies the growth rule to each site. */
void trend_update(struct trend *trend, struct live_site *sites, size_t count, bool step);
void trend_finish(struct trend *trend);
