/* SPDX-License-Identifier: MIT
 *
 * The skip list of the blocks' address ranges. An ended block keeps its range until another block
 * gets its memory, or the table of blocks has forgotten it. So frees do nothing here. Must not
 * decide what an access means.
 */
#include "interpose/block/block_ranges.h"

#define RANGES_LEAST 131072u /* twice the ended blocks that the table of blocks keeps */

struct block_range {
	uint64_t begin, span, key;
	uint64_t levels;
	struct block_range *next[];
};

static uint64_t bytes_of(uint64_t levels)
{
	return sizeof(struct block_range) + levels * sizeof(struct block_range *);
}

/* The place of the link to the next range of LEVEL after RANGE; NULL: from the first one. */
static struct block_range **link_after(struct block_ranges *ranges, struct block_range *range,
				       unsigned int level)
{
	return range ? &range->next[level] : &ranges->first[level];
}

/* Locking: the caller holds the lock of RANGES. Returns the last range that begins before LIMIT,
 * or NULL. Stores the places of the links that lead past LIMIT. */
static struct block_range *find_before(struct block_ranges *ranges, uint64_t limit,
				       struct block_range **ret_links[RANGE_LEVELS_MAX])
{
	struct block_range *at = NULL;

	for (unsigned int level = ranges->top + 1; level--;) {
		struct block_range **link = link_after(ranges, at, level);

		while (*link && (*link)->begin < limit) {
			at = *link;
			link = &at->next[level];
		}
		ret_links[level] = link;
	}
	return at;
}

/* Locking: as find_before(). LINKS lead to RANGE. */
static void remove_range(struct recorder *recorder, struct block_range *range,
			 struct block_range **links[RANGE_LEVELS_MAX])
{
	for (unsigned int level = 0; level < range->levels; level++)
		*links[level] = range->next[level];
	recorder->ranges->count--;
	arena_give(&recorder->arena, range, bytes_of(range->levels));
}

enum range_state ranges_state(struct recorder *recorder, uint64_t key,
			      struct ledger_block *ret_live, struct past *ret_past)
{
	struct shard *shard = shard_of(recorder, key);
	struct entry *entry;

	HOLD(&shard->lock);
	entry = entry_find(shard, key);
	if (entry && entry->block) {
		entry_tell(entry, ret_live);
		return RANGE_LIVE;
	}
	if (!entry || entry->deferred || !entry->past || !entry->past[0].freed_api)
		return RANGE_NONE_KNOWN;
	*ret_past = entry->past[0];
	return RANGE_ENDED;
}

/* Locking: as find_before(). Removes the ranges whose blocks the table has forgotten. */
static void forget_ranges(struct recorder *recorder)
{
	struct block_ranges *ranges = recorder->ranges;
	struct block_range **links[RANGE_LEVELS_MAX], *next;
	struct ledger_block live;
	struct past past;

	for (unsigned int level = 0; level < RANGE_LEVELS_MAX; level++)
		links[level] = &ranges->first[level];
	for (struct block_range *range = ranges->first[0]; range; range = next) {
		next = range->next[0];
		if (ranges_state(recorder, range->key, &live, &past) == RANGE_NONE_KNOWN)
			remove_range(recorder, range, links);
		else
			for (unsigned int level = 0; level < range->levels; level++)
				links[level] = &range->next[level];
	}
	ranges->limit = 2 * ranges->count > RANGES_LEAST ? 2 * ranges->count : RANGES_LEAST;
}

/* One of four ranges has a second level, one of 16 a third one. */
static uint64_t levels_for(uint64_t begin)
{
	unsigned int zeros = (unsigned int)__builtin_ctz(table_hash(begin) | 1u << 30);

	return 1 + zeros / 2;
}

void ranges_add(struct recorder *recorder, uint64_t key, uint64_t address, uint64_t span)
{
	struct block_ranges *ranges = recorder->ranges;
	struct block_range **links[RANGE_LEVELS_MAX], *range;
	uint64_t levels = levels_for(address), end;

	if (!span || __builtin_add_overflow(address, span, &end))
		return;
	HOLD(&ranges->lock);
	if (ranges->count >= (ranges->limit ? ranges->limit : RANGES_LEAST))
		forget_ranges(recorder);
	if (levels > ranges->top + 1)
		ranges->top = (unsigned int)levels - 1;
	range = find_before(ranges, address, links);
	if (range && range->begin + range->span > address)
		range->span = address - range->begin;
	while (*links[0] && (*links[0])->begin < end)
		remove_range(recorder, *links[0], links);
	range = arena_take(&recorder->arena, bytes_of(levels));
	if (!range)
		return;
	*range = (struct block_range){ address, span, key, levels };
	for (unsigned int level = 0; level < levels; level++) {
		range->next[level] = *links[level];
		*links[level] = range;
	}
	ranges->count++;
}

void ranges_find(struct recorder *recorder, uint64_t address, struct range_found *ret)
{
	struct block_ranges *ranges = recorder->ranges;
	struct block_range **links[RANGE_LEVELS_MAX], *range, *after;
	uint64_t key;

	ret->state = RANGE_NONE_KNOWN;
	lock_take(&ranges->lock);
	range = find_before(ranges, address + 1, links);
	after = range ? range->next[0] : ranges->first[0];
	ret->next = after ? after->begin : UINT64_MAX;
	key = range ? range->key : 0;
	ret->begin = range ? range->begin : 0;
	ret->span = range ? range->span : 0;
	lock_give(&ranges->lock);
	if (!range)
		return;
	ret->space = key_space(key, ret->begin);
	ret->state = ranges_state(recorder, key, &ret->live, &ret->past);
}
