/* SPDX-License-Identifier: MIT
 *
 * Adds up the balances of call sites. Must not trust the bytes of the ledger: sums may overflow,
 * but no access is out of bounds.
 */
#include "ledger/totals.h"

#include "ledger/shared.h"

/* By enum ledger_counted: blocks count whose enum ledger_hidden is not less. */
static const enum ledger_hidden least[] = {
	[LEDGER_COUNT_ALLOCATED] = LEDGER_HIDDEN_DEFERRED,
	[LEDGER_COUNT_LIVE] = LEDGER_HIDDEN_IGNORED,
	[LEDGER_COUNT_REPORTED] = LEDGER_HIDDEN_NOT,
};

/* Adds up the slots of SITE, for a ledger whose writer was too old to write balances. */
static struct ledger_live sum_slots(const struct ledger_view *view, const struct ledger_site *site,
				    enum ledger_counted counted)
{
	struct ledger_live ret = { 0 };
	struct ledger_block block;

	LEDGER_EACH(block_slot, slot, view) {
		if (!ledger_read_slot(slot, &block) || ledger_site(view, block.site) != site ||
		    ledger_block_hidden(block.state, block.marked) < least[counted])
			continue;
		ret.blocks++;
		ret.bytes += block.bytes;
	}
	return ret;
}

struct ledger_live ledger_site_live(const struct ledger_view *view, const struct ledger_site *site,
				    enum ledger_counted counted)
{
	const struct ledger_balance *own = ledger_balance_of(view, site);
	const struct ledger_balance *others = ledger_others_balance_of(view, site);
	uint32_t blocks;
	uint64_t bytes;

	if (!own || !others)
		return sum_slots(view, site, counted);
	blocks = shared_load(own->blocks) + shared_load(others->blocks);
	bytes = shared_load(own->bytes) + shared_load(others->bytes);
	for (unsigned int i = 0; i < least[counted]; i++) {
		blocks -= shared_load(others->hidden_blocks[i]);
		bytes -= shared_load(others->hidden_bytes[i]);
	}
	/* A sum that was read during a change may be below 0. */
	return (struct ledger_live){
		.blocks = (int32_t)blocks > 0 ? blocks : 0,
		.bytes = (int64_t)bytes > 0 ? bytes : 0,
	};
}

/* Returns true if SITE counts memory. Most call sites have the same few kinds, so the last answer
 * is stored in *KIND and *ANSWER. */
static bool is_memory(const struct ledger_view *view, const struct ledger_site *site,
		      uint32_t *kind, bool *answer)
{
	if (site->kind != *kind) {
		*kind = site->kind;
		*answer = !ledger_site_is_object(view, site);
	}
	return *answer;
}

static void add_difference(uint64_t *sum, uint64_t from, uint64_t to)
{
	if (to > from)
		*sum += to - from;
}

void ledger_totals(const struct ledger_view *view, struct ledger_totals *ret)
{
	uint64_t live_blocks = 0, live_bytes = 0;
	struct ledger_live live;
	bool answer = true;
	uint32_t kind = 0;

	*ret = (struct ledger_totals){ 0 };
	LEDGER_EACH(site, site, view) {
		if (!is_memory(view, site, &kind, &answer))
			continue;
		live = ledger_site_live(view, site, LEDGER_COUNT_LIVE);
		live_blocks += live.blocks;
		live_bytes += live.bytes;
		ret->allocated_blocks += shared_load(site->allocs);
		ret->allocated_bytes += shared_load(site->bytes);
	}
	add_difference(&ret->freed_blocks, live_blocks, ret->allocated_blocks);
	add_difference(&ret->freed_bytes, live_bytes, ret->allocated_bytes);
}

void ledger_totals_add(struct ledger_totals *sum, const struct ledger_totals *from,
		       const struct ledger_totals *to)
{
	add_difference(&sum->allocated_blocks, from->allocated_blocks, to->allocated_blocks);
	add_difference(&sum->allocated_bytes, from->allocated_bytes, to->allocated_bytes);
	add_difference(&sum->freed_blocks, from->freed_blocks, to->freed_blocks);
	add_difference(&sum->freed_bytes, from->freed_bytes, to->freed_bytes);
}
