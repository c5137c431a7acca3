/* SPDX-License-Identifier: MIT
 *
 * Reads the steps of a ledger and finds the call sites that keep growing.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "report/model/builder.h"
#include "report/model/growth_rule.h"
#include "report/util/number.h"
#include "report/suppress/suppress.h"

#define PER_HOUR_NS_MIN 10000000000u /* shorter times are not extrapolated to an hour */

/* Live bytes and blocks of one site at the steps FIRST, FIRST + 1 ... of the window. */
struct growth_site {
	struct site_key key;
	uint32_t stack_ref; /* of the first of its records */
	uint64_t bytes[GROWTH_STEPS_MAX], blocks[GROWTH_STEPS_MAX];
	uint32_t unknown; /* bit n: the values at step n of the window are unknown */
	struct growth_site *next;
};

struct window {
	struct table sites;
	struct growth_site *first_site;
	uint32_t first, count; /* number of the first step, and count of steps */
};

static bool same_site(const void *value, const void *key)
{
	return site_key_is_same(&((const struct growth_site *)value)->key, key);
}

static struct growth_site *intern_growth_site(struct builder *b, struct window *window,
					      const struct ledger_growth *record)
{
	const struct ledger_site refs = { .api = record->api, .kind = record->kind,
					  .device = record->device, .stack = record->stack };
	struct site_key key = site_key_of(b, &refs);
	uint64_t hash = site_key_hash(&key);
	struct growth_site *site = table_find(&window->sites, hash, same_site, &key);

	if (site)
		return site;
	site = arena_alloc(b->arena, sizeof(*site));
	*site = (struct growth_site){ .key = key, .stack_ref = record->stack,
				      .next = window->first_site };
	window->first_site = site;
	table_add(&window->sites, hash, site);
	return site;
}

static void add_numbers(struct growth_site *site, const struct window *window,
			const struct ledger_growth *record)
{
	for (uint32_t i = 0; i < window->count; i++) {
		uint32_t step = window->first + i;
		const struct ledger_growth_at *at = &record->at[step % LEDGER_GROWTH_STEPS];

		if (at->step == step) {
			site->bytes[i] = add_bounded(site->bytes[i], at->bytes);
			site->blocks[i] = add_bounded(site->blocks[i], at->blocks);
		} else if (step >= record->first_step) {
			site->unknown |= 1u << i;
		}
	}
}

static void read_sites(struct builder *b, struct window *window)
{
	struct ledger_walk walk = { 0 };
	const struct ledger_growth *record;

	while ((record = ledger_next_growth(b->view, &walk)))
		add_numbers(intern_growth_site(b, window, record), window, record);
}

/* ---- the growth rule ---- */

/* Returns the number of last steps of SITE that are known without a gap, and the first of them in
 * *RET_FIRST. Leaves out unknown values at the last two steps, because the writer may still be
 * changing them. */
static size_t known_steps(const struct growth_site *site, const struct window *window,
			  size_t *ret_first)
{
	size_t end = window->count, first;

	while (end && end + 2 > window->count && (site->unknown & 1u << (end - 1)))
		end--;
	for (first = end; first && !(site->unknown & 1u << (first - 1)); first--)
		;
	*ret_first = first;
	return end - first;
}

static bool is_constant(const struct growth_series *series, unsigned int intervals)
{
	const uint64_t *last = &series->values[series->count - 1];

	return last[0] == last[-(ptrdiff_t)intervals];
}

/* Stores the time of step NUMBER in *RET_NS and returns true. Returns false if it is unknown. */
static bool time_of(const struct report_growth *growth, uint32_t number, uint64_t *ret_ns)
{
	for (size_t i = growth->stored_count; i-- > 0;) {
		if (growth->steps[i].number != number)
			continue;
		*ret_ns = growth->steps[i].time_ns;
		return true;
	}
	return false;
}

static uint64_t per_hour(const struct report_growth *growth, uint32_t last, unsigned int intervals,
			 uint64_t per_step)
{
	uint64_t from, to;
	double ret;

	if (!time_of(growth, last, &to) || !time_of(growth, last - intervals, &from) ||
	    to < from + PER_HOUR_NS_MIN)
		return 0;
	ret = (double)per_step * intervals * 3600e9 / (double)(to - from);
	return ret < 1.8e19 ? (uint64_t)ret : UINT64_MAX;
}

/* Returns true if SITE is a suspect, and fills in *RET except its site. */
static bool judge_site(const struct report_growth *growth, const struct window *window,
		       const struct growth_site *site, struct report_suspect *ret)
{
	struct growth_verdict bytes, blocks;
	struct growth_series counts;
	size_t first, last;

	*ret = (struct report_suspect){ .stack_ref = site->stack_ref };
	ret->series.count = counts.count = known_steps(site, window, &first);
	if (!ret->series.count)
		return false;
	memcpy(ret->series.values, site->bytes + first, ret->series.count * sizeof(uint64_t));
	memcpy(counts.values, site->blocks + first, counts.count * sizeof(uint64_t));
	bytes = growth_judge(&ret->series);
	blocks = growth_judge(&counts);
	ret->intervals = bytes.intervals ? bytes.intervals : blocks.intervals;
	if (!bytes.intervals && (!blocks.intervals || !is_constant(&ret->series, blocks.intervals)))
		return false;
	last = first + ret->series.count - 1;
	ret->bytes = site->bytes[last];
	ret->blocks = site->blocks[last];
	ret->bytes_per_step = bytes.per_step;
	ret->blocks_per_step = blocks.per_step;
	ret->bytes_per_hour = per_hour(growth, window->first + (uint32_t)last, ret->intervals,
				       bytes.per_step);
	return true;
}

static const struct report_site *site_of(struct builder *b, const struct growth_site *site)
{
	const struct report_site key = { site->key.api, site->key.kind, site->key.device,
					 build_stack(b, site->stack_ref), 0 };

	return &intern_equal_site(b, &key)->site;
}

static int compare_suspects(const void *left, const void *right)
{
	const struct report_suspect *a = left, *b = right;

	return compare_numbers(b->bytes_per_step, a->bytes_per_step)
	       ?: compare_numbers(b->blocks_per_step, a->blocks_per_step)
	       ?: compare_numbers(a->stack_ref, b->stack_ref);
}

static void find_suspects(struct builder *b, const struct window *window,
			  struct report_growth *growth)
{
	struct report_suspect *list, one;

	list = arena_alloc(b->arena, window->sites.count * sizeof(*list));
	for (const struct growth_site *site = window->first_site; site; site = site->next) {
		int index;

		if (!judge_site(growth, window, site, &one))
			continue;
		one.site = site_of(b, site);
		index = suppressions_match(b->suppressions, one.site->stack->frames,
					   one.site->stack->count);
		if (index >= 0) {
			suppressions_count(b->suppressions, index, 0, 0);
			growth->suppressed++;
		} else {
			list[growth->suspect_count++] = one;
		}
	}
	SORT(list, growth->suspect_count, compare_suspects);
	growth->suspects = list;
}

/* ---- steps ---- */

static int compare_steps(const void *left, const void *right)
{
	const struct report_step *a = left, *b = right;

	return compare_numbers(a->number, b->number);
}

static void read_steps(struct builder *b, struct report_growth *growth)
{
	struct report_step *steps = arena_alloc(b->arena, LEDGER_STEPS_MAX * sizeof(*steps));
	struct ledger_walk walk = { 0 };
	const struct ledger_step *record;
	size_t count = 0;

	while (count < LEDGER_STEPS_MAX && (record = ledger_next_step(b->view, &walk))) {
		size_t length = strnlen(record->label, sizeof(record->label));

		if (!record->number)
			continue;
		steps[count++] = (struct report_step){
			record->number, record->time_ns, record->live_bytes, record->live_blocks,
			length ? arena_text(b->arena, record->label, length) : NULL,
		};
		if (record->number >= growth->step_count) {
			growth->step_count = record->number;
			growth->lost = record->lost;
		}
	}
	SORT(steps, count, compare_steps);
	growth->steps = steps;
	growth->stored_count = count;
}

void build_growth(struct builder *b)
{
	struct report_growth *growth = arena_alloc(b->arena, sizeof(*growth));
	struct window window = { 0 };

	read_steps(b, growth);
	if (!growth->step_count)
		return;
	b->process->growth = growth;
	window.count = growth->step_count < GROWTH_STEPS_MAX ? (uint32_t)growth->step_count
							     : GROWTH_STEPS_MAX;
	window.first = (uint32_t)growth->step_count - window.count + 1;
	read_sites(b, &window);
	find_suspects(b, &window, growth);
	table_finish(&window.sites);
}
