/* SPDX-License-Identifier: MIT
 *
 * Identifies call sites by their refs in the ledger, which do not change.
 */
#include "report/top/trend.h"

#include <stdbool.h>
#include <string.h>

#include "report/top/live.h"

struct trend_site {
	uint32_t ref;
	unsigned int seen; /* number of the last read that had the site */
	struct live_sum sum;
	uint64_t allocated;
	struct growth_series series;
	struct growth_verdict verdict;
	struct trend_site *next;
};

static void push(struct growth_series *series, uint64_t value)
{
	if (series->count == GROWTH_STEPS_MAX)
		memmove(series->values, series->values + 1,
			--series->count * sizeof(series->values[0]));
	series->values[series->count++] = value;
}

static struct trend_site *intern_trend_site(struct trend *trend, uint32_t ref)
{
	struct trend_site *ret = table_intern(&trend->arena, &trend->sites, &ref, sizeof(ref),
					      sizeof(*ret));

	if (ret->seen)
		return ret;
	for (unsigned int i = 0; i < trend->steps && i < GROWTH_STEPS_MAX; i++)
		push(&ret->series, 0); /* the site had no memory at earlier steps */
	ret->next = trend->first;
	trend->first = ret;
	return ret;
}

static void note(const struct trend *trend, struct trend_site *known, struct live_site *site,
		 bool step)
{
	if (trend->reads > 1) {
		site->before = known->sum;
		site->allocated_before = known->allocated;
	} else {
		site->allocated_before = site->allocated;
	}
	known->sum = site->sum;
	known->allocated = site->allocated;
	known->seen = trend->reads;
	if (step) {
		push(&known->series,
		     kind_is_object(site->site->kind) ? site->sum.blocks : site->sum.bytes);
		known->verdict = growth_judge(&known->series);
	}
	site->growing = known->verdict;
}

void trend_update(struct trend *trend, struct live_site *sites, size_t count, bool step)
{
	trend->reads++;
	for (size_t i = 0; i < count; i++)
		note(trend, intern_trend_site(trend, sites[i].ref), &sites[i], step);
	for (struct trend_site *site = trend->first; site; site = site->next) {
		if (site->seen == trend->reads)
			continue;
		site->sum = (struct live_sum){ 0 };
		if (step) {
			push(&site->series, 0);
			site->verdict = growth_judge(&site->series);
		}
	}
	trend->steps += step != 0;
}

void trend_finish(struct trend *trend)
{
	arena_finish(&trend->arena);
	*trend = (struct trend){ 0 };
}
