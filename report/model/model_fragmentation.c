/* SPDX-License-Identifier: MIT
 *
 * Sums for each cache how many bytes of its segments are in use, and which call sites use them.
 * Omits caches that report no suballocations, because nobody knows what they use.
 */
#include "report/model/model_fragmentation.h"

#include <string.h>

#include "report/model/builder.h"
#include "report/model/division.h"
#include "report/util/compare.h"
#include "report/util/number.h"

#define KIND_HANDLE "vmm-handle"

/* What a call site has in one segment. */
struct share {
	struct extent *segment;
	struct build_site *site;
	uint64_t bytes, blocks;
};

struct sorting {
	struct builder *b;
	struct report_fragmentations *ret;
	struct share *shares;
	size_t share_count;
	struct site_list *pins; /* of each element of RET: of struct pin_entry */
};

struct pin_entry {
	struct site_entry entry;
	struct report_pin pin;
};

static int compare_shares(const void *left, const void *right)
{
	const struct share *a = left, *b = right;

	return compare_numbers((uintptr_t)a->segment, (uintptr_t)b->segment)
	       ?: compare_numbers((uintptr_t)a->site, (uintptr_t)b->site);
}

static void add_share(struct sorting *s, const struct part_use *use)
{
	if (use->site)
		*ARENA_ADD(s->b->arena, s->shares, s->share_count) = (struct share){
			use->extent, intern_site(s->b, use->site), use->bytes, use->is_first,
		};
}

/* Joins the sorted shares of one call site in one segment. */
static void join_shares(struct sorting *s)
{
	size_t kept = 0;

	for (size_t i = 1; i < s->share_count; i++) {
		struct share *to = &s->shares[kept], *from = &s->shares[i];

		if (compare_shares(to, from)) {
			s->shares[++kept] = *from;
			continue;
		}
		to->bytes = add_bounded(to->bytes, from->bytes);
		to->blocks += from->blocks;
	}
	s->share_count = s->share_count ? kept + 1 : 0;
}

/* Lets each segment find its shares. */
static void assign_shares(struct sorting *s)
{
	for (size_t i = s->share_count; i--;) {
		s->shares[i].segment->first_share = i;
		s->shares[i].segment->share_count++;
	}
}

static void read_shares(struct sorting *s, const struct division *d)
{
	for (size_t i = 0; i < d->use_count; i++)
		add_share(s, &d->uses[i]);
	SORT(s->shares, s->share_count, compare_shares);
	join_shares(s);
	assign_shares(s);
}

/* Returns 0 if the segment has all of the extent KEY. */
static int compare_with_segment(const void *key, const void *value)
{
	const struct extent *range = key;
	const struct ledger_segment *segment = value;

	return range->start < segment->address ? -1
	       : range->end - segment->address > segment->bytes;
}

/* Finds what the cache reported of each extent. A handle has no address: its mapping has. */
static void read_segments(struct sorting *s, struct extents *ranges)
{
	const struct ledger_segment *found;
	struct ledger_segment *all = NULL;
	struct ledger_walk walk = { 0 };
	size_t count = 0;

	while ((found = ledger_next_segment(s->b->view, &walk)))
		*ARENA_ADD(s->b->arena, all, count) = *found;
	SORT(all, count, compare_ranges);
	for (size_t i = 0; i < ranges->count && count; i++) {
		struct extent *range = &ranges->list[i];

		found = bsearch(range, all, count, sizeof(*all), compare_with_segment);
		if (found && range->time_ns <= found->time_ns)
			(range->handle ?: range)->segment = found;
	}
}

static int compare_streams(const struct ledger_segment *a, const struct ledger_segment *b)
{
	return a && b ? compare_numbers(a->stream, b->stream) ?: compare_numbers(a->pool, b->pool)
		      : (a != NULL) - (b != NULL);
}

static bool is_of(const struct report_fragmentation *entry, const char *cache,
		  const struct extent *segment)
{
	return strcmp(entry->cache, cache) == 0 && entry->device == segment->device &&
	       entry->captured == segment->captured &&
	       compare_streams(entry->segment, segment->segment) == 0;
}

/* Returns the index of the entry that SEGMENT belongs to. */
static size_t entry_of(struct sorting *s, const char *cache, const struct extent *segment)
{
	struct report_fragmentations *ret = s->ret;
	size_t at = 0, lists = ret->count;

	while (at < ret->count && !is_of(&ret->list[at], cache, segment))
		at++;
	if (at < ret->count)
		return at;
	*ARENA_ADD(s->b->arena, ret->list, ret->count) = (struct report_fragmentation){
		.cache = cache, .device = segment->device, .captured = segment->captured,
		.segment = segment->segment,
	};
	*ARENA_ADD(s->b->arena, s->pins, lists) = site_list(s->b, sizeof(struct pin_entry));
	return at;
}

static void add_pin(struct sorting *s, size_t entry, const struct share *share)
{
	const struct extent *segment = share->segment;
	struct pin_entry *found = site_list_get(&s->pins[entry], share->site);
	struct report_pin *pin = &found->pin;
	bool alone = segment->share_count == 1;

	pin->held.site = &share->site->site;
	pin->held.cache = report_cache_of(pin->held.site);
	pin->held.bytes = add_bounded(pin->held.bytes, share->bytes);
	pin->held.blocks += share->blocks;
	pin->segments++;
	pin->segment_bytes = add_bounded(pin->segment_bytes, segment->bytes);
	pin->unused_bytes = add_bounded(pin->unused_bytes, segment->left);
	pin->own_segments += alone;
	pin->own_unused_bytes = add_bounded(pin->own_unused_bytes, alone ? segment->left : 0);
}

static void count_segment(struct report_fragmentation *entry, const struct extent *segment)
{
	uint64_t *unused = segment->share_count ? &entry->pinned_free_bytes
						: &entry->whole_free_bytes;

	entry->segments++;
	entry->pinned_segments += segment->share_count && segment->left;
	entry->reserved_bytes = add_bounded(entry->reserved_bytes, segment->bytes);
	entry->used_bytes = add_bounded(entry->used_bytes, segment->bytes - segment->left);
	*unused = add_bounded(*unused, segment->left);
}

static void add_segment(struct sorting *s, const struct extent *segment)
{
	const struct report_site *site = &intern_site(s->b, segment->site)->site;
	const struct share *shares = segment->share_count ? &s->shares[segment->first_share] : NULL;
	const char *cache = report_cache_of(site);
	size_t entry;

	if (!cache && shares)
		cache = report_cache_of(&shares->site->site);
	if (!cache)
		return;
	entry = entry_of(s, cache, segment);
	count_segment(&s->ret->list[entry], segment);
	s->ret->list[entry].physical |= strcmp(site->kind, KIND_HANDLE) == 0;
	for (size_t i = 0; segment->left && i < segment->share_count; i++)
		add_pin(s, entry, &shares[i]);
}

static void add_segments(struct sorting *s, const struct extents *segments)
{
	for (size_t i = 0; i < segments->count; i++)
		if (!segments->list[i].handle)
			add_segment(s, &segments->list[i]);
}

static int compare_pins(const void *left, const void *right)
{
	const struct report_pin *a = left, *b = right;

	return compare_numbers(b->own_unused_bytes, a->own_unused_bytes)
	       ?: compare_numbers(b->unused_bytes, a->unused_bytes)
	       ?: build_compare_leaks(&a->held, &b->held);
}

static int compare_entries(const void *left, const void *right)
{
	const struct report_fragmentation *a = left, *b = right;

	return compare_numbers(b->reserved_bytes, a->reserved_bytes)
	       ?: compare_ints(a->device, b->device) ?: a->captured - b->captured
	       ?: strcmp(a->cache, b->cache) ?: compare_streams(a->segment, b->segment);
}

static void list_pins(struct sorting *s)
{
	for (size_t i = 0; i < s->ret->count; i++) {
		struct report_fragmentation *entry = &s->ret->list[i];
		const struct pin_entry *found;

		EACH_SITE(&s->pins[i], found)
			*ARENA_ADD(s->b->arena, entry->pins, entry->pin_count) = found->pin;
		SORT(entry->pins, entry->pin_count, compare_pins);
	}
}

static bool reports_suballocations(struct builder *b, const char *cache)
{
	const struct ledger_site *site;
	struct ledger_walk walk = { 0 };

	while ((site = ledger_next_suballocation_site(b->view, &walk)))
		if (is_same_text(report_cache_of(&intern_site(b, site)->site), cache))
			return true;
	return false;
}

static void remove_unknown(struct sorting *s)
{
	size_t kept = 0;

	for (size_t i = 0; i < s->ret->count; i++) {
		const struct report_fragmentation *entry = &s->ret->list[i];

		if (entry->used_bytes || reports_suballocations(s->b, entry->cache))
			s->ret->list[kept++] = *entry;
	}
	s->ret->count = kept;
}

const struct report_fragmentations *build_fragmentations(struct builder *b,
							 const struct ledger_out_of_memory *record)
{
	struct sorting s = { .b = b };
	struct division d;

	if (division_begin(&d, b, record)) {
		s.ret = arena_alloc(b->arena, sizeof(*s.ret));
		read_shares(&s, &d);
		if (!record)
			read_segments(&s, &d.ranges);
		add_segments(&s, &d.ranges);
		add_segments(&s, &d.handles);
		list_pins(&s);
		remove_unknown(&s);
		SORT(s.ret->list, s.ret->count, compare_entries);
	}
	division_finish(&d);
	return s.ret;
}
