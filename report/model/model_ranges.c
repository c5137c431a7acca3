/* SPDX-License-Identifier: MIT
 *
 * The ranges in which call sites allocated: their records and paths. With --by range a line that
 * allocates in two ranges is two call sites. So each list by call site shows the ranges, too.
 */
#include "report/load/load.h"
#include "report/model/builder.h"

#define DEPTH_MAX 64u

struct build_ranges {
	const struct ledger_range *record[LEDGER_RANGE_OTHER + 1]; /* NULL: not in the ledger */
	const char *name[LEDGER_RANGE_OTHER + 1]; /* NULL: not put together yet */
};

static struct build_ranges *ranges_of(struct builder *b)
{
	const struct ledger_range *record;
	struct ledger_walk walk = { 0 };

	if (b->ranges)
		return b->ranges;
	b->ranges = arena_alloc(b->arena, sizeof(*b->ranges));
	while ((record = ledger_next_range(b->view, &walk)))
		if (record->number && record->number <= LEDGER_RANGE_OTHER)
			b->ranges->record[record->number] = record;
	return b->ranges;
}

uint16_t build_range_number(const struct builder *b, const struct ledger_site *record)
{
	const struct ledger_balance *balance = ledger_balance_of(b->view, record);

	return balance && balance->range <= LEDGER_RANGE_OTHER ? balance->range : 0;
}

const struct ledger_range *build_range(struct builder *b, uint32_t number)
{
	return ranges_of(b)->record[number];
}

const char *build_range_path(struct builder *b, const struct ledger_range *record)
{
	const char *ret = build_name(b, record->name);

	for (unsigned int depth = 0; depth < DEPTH_MAX; depth++) {
		record = record->parent < LEDGER_RANGE_OTHER ? build_range(b, record->parent)
							      : NULL;
		if (!record)
			break;
		ret = arena_printf(b->arena, "%s/%s", build_name(b, record->name), ret);
	}
	return ret;
}

const char *build_range_of(struct builder *b, const struct ledger_site *record)
{
	uint64_t offset = (uint64_t)((const uint8_t *)record - b->view->base);
	const struct ledger_range *range;
	const char **name;
	uint16_t number;

	if (!b->choice->by_range || !record || offset / LEDGER_CHUNK >= b->view->chunks)
		return NULL;
	number = build_range_number(b, record);
	name = &ranges_of(b)->name[number];
	range = number < LEDGER_RANGE_OTHER ? build_range(b, number) : NULL;
	if (!*name)
		*name = !number ? "outside all ranges"
			: !range ? "in further ranges"
			: range->domain ? arena_printf(b->arena, "in the range %s [%s]",
						       build_range_path(b, range),
						       build_name(b, range->domain))
					: arena_printf(b->arena, "in the range %s",
						       build_range_path(b, range));
	return *name;
}
