/* SPDX-License-Identifier: MIT
 *
 * Divides the bytes of live blocks among the live suballocations that lie in them, so that every
 * byte counts once. Runs after build_groups(), because the result is part of each group, and before
 * classify_groups(), which copies the groups. A damaged ledger may have ranges that overlap, and
 * suballocations that overlap or lie in no block.
 */

#include "ledger/kind_table.h"
#include "report/model/builder.h"
#include "report/model/division.h"
#include "report/model/model_suballocations.h"

#define KIND_HANDLE "vmm-handle"

/* ---- the blocks ---- */

/* LISTED: BLOCK is a record of the ledger, and the report may list it. */
static void add_block(struct division *d, const struct ledger_block *block, bool listed)
{
	const struct ledger_site *site = ledger_site(d->b->view, block->site);
	uint32_t length = 0;
	const char *name = site ? ledger_string(d->b->view, site->kind, &length) : NULL;
	const struct kind *kind = name ? kind_find(name, length) : NULL;
	bool is_handle = kind && strcmp(kind->name, KIND_HANDLE) == 0;
	struct extents *to = is_handle ? &d->handles : &d->ranges;
	struct extent extent = { .start = block->address, .left = block->bytes, .site = site,
				 .bytes = block->bytes, .parent = block->parent,
				 .time_ns = block->time_ns };

	if (!kind || (!is_handle && kind->address != KIND_ADDRESS_LINEAR))
		return;
	extent.device = site->device;
	extent.captured = block->marked & LEDGER_BLOCK_CAPTURED;
	extent.end = is_handle ? 0 : add_bounded(block->address, block->bytes);
	if (listed && build_is_selected(d->b, block))
		extent.group = build_group_of(d->b, block);
	*LIST_ADD(to->list, to->count) = extent;
}

static void add_all_blocks(struct division *d, bool listed)
{
	LEDGER_EACH(live, block, d->b->view)
		add_block(d, block, listed);
}

int compare_ranges(const void *left, const void *right)
{
	const uint64_t *a = left, *b = right;

	return compare_numbers(a[0], b[0]) ?: compare_numbers(a[1], b[1]);
}

static int compare_start(const void *key, const void *value)
{
	return compare_numbers(*(const uint64_t *)key, ((const struct extent *)value)->start);
}

/* If the bytes of a mapping count at the block of its handle, sets the mapping's range to the size
 * of the handle's memory. */
static void find_handles(struct division *d)
{
	for (size_t i = 0; i < d->ranges.count && d->handles.count; i++) {
		struct extent *range = &d->ranges.list[i];

		if (range->left || !range->parent)
			continue;
		range->handle = bsearch(&range->parent, d->handles.list, d->handles.count,
					sizeof(*d->handles.list), compare_start);
		if (range->handle)
			range->end = add_bounded(range->start, range->handle->left);
	}
}

/* Makes the sorted ranges disjoint: an address belongs to the first range that has it. */
static void separate(struct extents *ranges)
{
	uint64_t end = 0;
	size_t kept = 0;

	for (size_t i = 0; i < ranges->count; i++) {
		struct extent range = ranges->list[i];

		range.start = range.start > end ? range.start : end;
		if (range.start >= range.end)
			continue;
		end = range.end;
		ranges->list[kept++] = range;
	}
	ranges->count = kept;
}

/* ---- the suballocations ---- */

/* Returns the places of the call site of RECORD. */
static struct report_places *places_of(struct builder *b, const struct ledger_site *record)
{
	struct build_site *site = intern_site(b, record);

	if (!site->places)
		site->places = arena_alloc(b->arena, sizeof(*site->places));
	return site->places;
}

static void add_part(struct division *d, const struct ledger_block *block, bool listed)
{
	const struct ledger_site *site = ledger_suballocation_site(d->b->view, block->site);

	*LIST_ADD(d->parts, d->part_count) = (struct part){
		block->address, add_bounded(block->address, block->bytes),
		site ? site->device : -1, site,
		listed && site && build_is_selected(d->b, block) ? places_of(d->b, site) : NULL,
	};
}

/* Reads the live suballocations. */
static void add_parts(struct division *d, bool listed)
{
	LEDGER_EACH(suballocation, block, d->b->view)
		add_part(d, block, listed);
}

/* Reads what was live at the refusal RECORD. Returns false if that is not known. */
static bool add_layout(struct division *d, const struct ledger_out_of_memory *record)
{
	struct ledger_walk walk = { 0 };
	const struct ledger_extent *extent;
	uint32_t found = 0;

	while (record->layout && (extent = ledger_next_extent(d->b->view, &walk))) {
		struct ledger_block block = {
			.address = extent->address, .bytes = extent->bytes,
			.parent = extent->parent, .site = extent->site,
			.marked = extent->layout & 1 ? LEDGER_BLOCK_CAPTURED : 0,
		};

		if (extent->layout >> 1 != record->layout)
			continue;
		found++;
		if (ledger_suballocation_site(d->b->view, extent->site))
			add_part(d, &block, false);
		else
			add_block(d, &block, false);
	}
	return record->layout && found == record->extents;
}

/* ---- the division ---- */

/* Takes BYTES of RANGE's block for PART, or all that the block has left. Returns how many it
 * took. */
static uint64_t take(struct division *d, struct extent *range, const struct part *part,
		     uint64_t bytes)
{
	struct extent *counts = range->handle ? range->handle : range;
	uint64_t taken = bytes < counts->left ? bytes : counts->left;

	counts->left -= taken;
	*LIST_ADD(d->uses, d->use_count) = (struct part_use){
		counts, part->site, taken, part != d->last };
	d->last = part;
	if (counts->group)
		counts->group->used_bytes = add_bounded(counts->group->used_bytes, taken);
	return taken;
}

static bool same_device(int a, int b)
{
	return a < 0 || b < 0 || a == b;
}

/* Returns the first range that ends after ADDRESS. */
static struct extent *first_range(const struct extents *ranges, uint64_t address)
{
	size_t low = 0, high = ranges->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (ranges->list[middle].end > address)
			high = middle;
		else
			low = middle + 1;
	}
	return &ranges->list[low];
}

/* Takes the bytes of PART from address FROM on out of the blocks that contain them. The bytes
 * before FROM belong to another suballocation. */
static void divide(struct division *d, const struct part *part, uint64_t from)
{
	const struct extent *end = d->ranges.count ? d->ranges.list + d->ranges.count : NULL;
	uint64_t inside = 0, doubled = from - part->start;
	struct report_places *of = part->of;

	for (struct extent *range = d->ranges.count ? first_range(&d->ranges, from) : NULL;
	     range && range < end && range->start < part->end; range++) {
		uint64_t start = range->start > from ? range->start : from;
		uint64_t stop = range->end < part->end ? range->end : part->end;
		uint64_t taken;

		if (!same_device(range->device, part->device))
			continue;
		taken = take(d, range, part, stop - start);
		inside += stop - start;
		doubled += stop - start - taken;
	}
	if (!of)
		return;
	of->doubled_bytes = add_bounded(of->doubled_bytes, doubled);
	of->outside_bytes = add_bounded(of->outside_bytes, part->end - from - inside);
	if (inside == 0 && from < part->end)
		of->outside_blocks++;
	else if (inside < part->end - from)
		of->partly_blocks++;
}

static void divide_all(struct division *d)
{
	uint64_t end = 0;

	EACH_ITEM(d->parts, d->part_count, part) {
		uint64_t from = part->start > end ? part->start : end;

		divide(d, part, from < part->end ? from : part->end);
		end = part->end > end ? part->end : end;
	}
}

static void divide_up(struct division *d)
{
	SORT(d->handles.list, d->handles.count, compare_ranges);
	find_handles(d);
	SORT(d->ranges.list, d->ranges.count, compare_ranges);
	separate(&d->ranges);
	SORT(d->parts, d->part_count, compare_ranges);
	divide_all(d);
}

bool division_begin(struct division *ret, struct builder *b,
		    const struct ledger_out_of_memory *record)
{
	*ret = (struct division){ .b = b };
	if (record && !add_layout(ret, record))
		return false;
	if (!record) {
		add_parts(ret, false);
		add_all_blocks(ret, false);
	}
	divide_up(ret);
	return true;
}

void division_finish(struct division *d)
{
	free(d->ranges.list);
	free(d->handles.list);
	free(d->parts);
	free(d->uses);
}

void build_division(struct builder *b)
{
	struct division d = { .b = b };

	add_parts(&d, true);
	if (d.part_count) {
		add_all_blocks(&d, true);
		divide_up(&d);
	}
	division_finish(&d);
}
