/* SPDX-License-Identifier: MIT
 *
 * Holders: call sites that held memory at one moment. Adds up holders of one call site, and divides
 * memory among suballocations and the blocks around them. Names each of them, adds up the holders
 * of one name, and prints them as a table, largest first. There are at most a thousand holders.
 */
#include "report/subjects/held.h"

#include "report/model/model_holders.h"
#include "report/subjects/common.h"
#include "report/util/path.h"
#include "report/util/text_buffer.h"

/* ---- reading ---- */

struct report_leak build_holder(const struct build_site *site, uint64_t bytes, uint64_t blocks)
{
	return (struct report_leak){ .site = &site->site, .bytes = bytes, .blocks = blocks,
				     .cache = report_cache_of(&site->site) };
}

/* Maximum number of holders. Smaller ones are added up. */
#define HOLDERS_MAX 1000u

/* What the call sites of one place in the program had live. */
struct amount {
	struct site_entry entry;
	const struct ledger_site *record; /* the first of them in the ledger */
	bool inside; /* they are suballocations, inside of blocks */
	uint64_t bytes, blocks;
};

struct site_list held_sites(struct builder *b)
{
	return site_list(b, sizeof(struct amount));
}

void held_site_add(struct site_list *sites, const struct ledger_site *site, bool inside,
		   uint64_t bytes, uint64_t blocks)
{
	struct amount *amount = site_list_get(sites, intern_code_site(sites->b, site));

	if (!amount->record)
		*amount = (struct amount){ amount->entry, site, inside, 0, 0 };
	amount->bytes = add_bounded(amount->bytes, bytes);
	amount->blocks = add_bounded(amount->blocks, blocks);
}

static int compare_amounts(const void *left, const void *right)
{
	const struct amount *a = *(const struct amount *const *)left;
	const struct amount *b = *(const struct amount *const *)right;

	return compare_numbers(b->bytes, a->bytes)
	       ?: compare_numbers((uintptr_t)a->record, (uintptr_t)b->record);
}

void held_sites_list(const struct site_list *sites, struct report_holders *held, uint64_t sums[2])
{
	const struct amount **amounts, *one;
	size_t count = 0;

	amounts = arena_alloc(sites->b->arena, sites->count * sizeof(*amounts));
	EACH_SITE(sites, one)
		amounts[count++] = one;
	SORT(amounts, count, compare_amounts);
	for (size_t i = 0; i < count; i++) {
		one = amounts[i];
		sums[one->inside] = add_bounded(sums[one->inside], one->bytes);
		if (i < HOLDERS_MAX) {
			*ARENA_ADD(sites->b->arena, held->list, held->count) = build_holder(
				look_up_site(sites->b, one->entry.site), one->bytes, one->blocks);
			continue;
		}
		held->other_sites++;
		held->other_bytes = add_bounded(held->other_bytes, one->bytes);
		held->other_blocks = add_bounded(held->other_blocks, one->blocks);
	}
	report_merge_holders(held);
}

/* Sites are interned. */
static int compare_sites(const void *left, const void *right)
{
	const struct report_leak *a = left, *b = right;

	return compare_numbers((uintptr_t)a->site, (uintptr_t)b->site);
}

void report_merge_holders(struct report_holders *held)
{
	size_t kept = 0;

	if (!held->count)
		return;
	SORT(held->list, held->count, compare_sites);
	for (size_t i = 1; i < held->count; i++) {
		struct report_leak *to = &held->list[kept];
		const struct report_leak *from = &held->list[i];

		if (to->site != from->site) {
			held->list[++kept] = *from;
			continue;
		}
		to->bytes = add_bounded(to->bytes, from->bytes);
		to->blocks = add_bounded(to->blocks, from->blocks);
	}
	held->count = kept + 1;
	SORT(held->list, held->count, build_compare_leaks);
}

bool report_holder_is_unused(const struct report_holders *held, const struct report_leak *holder)
{
	if (!held->divided || !holder->cache || report_is_suballocation(holder))
		return false;
	for (size_t i = 0; i < held->count; i++)
		if (held->list[i].cache && report_is_suballocation(&held->list[i]) &&
		    strcmp(held->list[i].cache, holder->cache) == 0)
			return true;
	return false;
}

/* Removes BYTES from *FROM, or all that it has. Returns how many are left to remove. */
static uint64_t take_bytes(uint64_t *from, uint64_t bytes)
{
	uint64_t taken = bytes < *from ? bytes : *from;

	*from -= taken;
	return bytes - taken;
}

/* Makes one holder of all blocks in the cache of FIRST, the largest one of them. Returns it. */
static struct report_leak *join_cache(struct builder *b, struct report_holders *held,
				      struct report_leak *first)
{
	struct report_site without_stack = *first->site;
	size_t kept = (size_t)(first - held->list) + 1;

	without_stack.stack = &build_no_stack;
	first->site = &intern_equal_site(b, &without_stack)->site;
	for (size_t i = kept; i < held->count; i++) {
		struct report_leak *other = &held->list[i];

		if (report_is_suballocation(other) || !other->cache ||
		    strcmp(other->cache, first->cache) != 0) {
			held->list[kept++] = *other;
			continue;
		}
		first->bytes = add_bounded(first->bytes, other->bytes);
		first->blocks = add_bounded(first->blocks, other->blocks);
	}
	held->count = kept;
	return first;
}

static void remove_empty(struct report_holders *held)
{
	size_t kept = 0;

	for (size_t i = 0; i < held->count; i++)
		if (held->list[i].bytes)
			held->list[kept++] = held->list[i];
	held->count = kept;
}

void report_divide_holders(struct builder *b, struct report_holders *held, uint64_t inside)
{
	if (!inside)
		return;
	held->divided = true;
	for (size_t i = 0; i < held->count; i++)
		if (report_holder_is_unused(held, &held->list[i]))
			inside = take_bytes(&join_cache(b, held, &held->list[i])->bytes, inside);
	for (size_t i = 0; i < held->count && inside; i++)
		if (!report_is_suballocation(&held->list[i]))
			inside = take_bytes(&held->list[i].bytes, inside);
	take_bytes(&held->other_bytes, inside);
	remove_empty(held);
	report_merge_holders(held);
}

/* ---- names ---- */

const char *report_holder_library(const struct report_leak *holder)
{
	EACH_ITEM(holder->site->stack->frames, holder->site->stack->count, frame) {
		if (frame->role != FRAME_RUNTIME && frame->module)
			return path_last(frame->module);
	}
	return NULL;
}

/* Returns the word before the cache of HOLDER if its name does not say what it is. */
static const char *cache_word(const struct report_leak *holder)
{
	return holder->cache == report_heap_of(holder->site) ? "heap " : "";
}

/* CALLER: the frame that holder_frames_choose() found for the holder, or NULL */
static void print_name_of_place(FILE *out, const struct report_holders *holders,
				const struct report_leak *holder, const struct report_frame *caller,
				enum held_by by, bool whole)
{
	const struct report_frame *frame = report_stack_culprit(holder->site->stack);
	const char *library = report_holder_library(holder);
	bool is_cached = holder->cache && !report_is_suballocation(holder);

	if (report_holder_is_unused(holders, holder)) {
		eprintf(out, "unused in the %s%s", cache_word(holder), holder->cache);
	} else if (by == HELD_BY_OWNER && is_cached) {
		eprintf(out, "the %s%s", cache_word(holder), holder->cache);
	} else if (library && (!frame || frame->role != FRAME_APPLICATION)) {
		print_escaped(out, library);
	} else if (caller) {
		describe_frame(out, caller, whole);
	} else if (frame && frame->role == FRAME_APPLICATION && !frame->waiting) {
		describe_frame(out, frame, whole);
	} else {
		describe_place(out, holder->site->stack, whole);
	}
}

static void print_name(FILE *out, const struct report_holders *holders,
		       const struct report_leak *holder, const struct report_frame *caller,
		       enum held_by by, bool whole)
{
	if (by == HELD_BY_CACHE)
		print_escaped(out, holder->cache ?: "");
	else if (by == HELD_BY_LIBRARY)
		print_escaped(out, report_holder_library(holder) ?: holder->cache ?: "unknown");
	else
		print_name_of_place(out, holders, holder, caller, by, whole);
}

/* Returns the name of HOLDER in ARENA. */
static const char *name_of(struct report_arena *arena, const struct report_holders *holders,
			   const struct report_leak *holder,
			   const struct report_frame *caller, enum held_by by, bool whole)
{
	FREE_AT_END char *name =
		PRINTED(to, print_name(to, holders, holder, caller, by, whole));

	return arena_text(arena, name, strlen(name));
}

/* ---- sums ---- */

/* Parts of "function(parameters) (file:line)". For an inlined C++ function gcc gives the name
 * without parameters, and elsewhere with them. Both names are one place. */
struct place_name {
	size_t function; /* length without parameters */
	const char *source;
};

static struct place_name split(const char *name)
{
	const char *source = NULL, *end;
	size_t depth = 0;

	for (const char *at = strstr(name, " ("); at; at = strstr(at + 1, " ("))
		source = at;
	if (!source || source == name || source[-1] != ')')
		return (struct place_name){ source ? (size_t)(source - name) : strlen(name),
					    source ? source : "" };
	for (end = source; end > name;) {
		end--;
		depth += *end == ')';
		if (*end == '(' && --depth == 0)
			break;
	}
	return (struct place_name){ (size_t)(end - name), source };
}

static bool same_place(const char *a, const char *b)
{
	struct place_name left = split(a), right = split(b);

	return left.function == right.function && memcmp(a, b, left.function) == 0 &&
	       strcmp(left.source, right.source) == 0;
}

static void add_to(struct held_list *held, const char *name, const struct report_leak *holder,
		   bool is_unused)
{
	struct place_name parts = split(name);
	uint64_t hash = hash_bytes(parts.source, strlen(parts.source),
				   hash_bytes(name, parts.function, 0));
	struct held *to = held->list, *end = held->list + held->count;

	while (to < end && (to->hash != hash || !same_place(to->name, name)))
		to++;
	if (to == end) {
		*to = (struct held){ .name = name, .hash = hash, .is_unused = is_unused,
				     .largest = holder };
		held->count++;
	}
	if (holder->bytes > to->largest->bytes)
		to->largest = holder;
	to->bytes = add_bounded(to->bytes, holder->bytes);
	to->blocks = add_bounded(to->blocks, holder->blocks);
}

static int compare_held(const void *left, const void *right)
{
	const struct held *a = left, *b = right;

	return compare_numbers(b->bytes, a->bytes) ?: strcmp(a->name, b->name);
}

struct held_list held_sum_up(const struct report_holders *holders, enum held_by by, bool whole)
{
	struct held_list ret = { calloc(holders->count + 1, sizeof(*ret.list)) };
	const struct report_frame **callers = calloc(holders->count + 1, sizeof(*callers));

	if (by == HELD_BY_PLACE || by == HELD_BY_OWNER)
		holder_frames_choose(holders, callers);
	for (size_t i = 0; i < holders->count; i++) {
		const struct report_leak *holder = &holders->list[i];
		const char *name = name_of(&ret.arena, holders, holder, callers[i], by, whole);

		if (*name)
			add_to(&ret, name, holder, report_holder_is_unused(holders, holder));
	}
	SORT(ret.list, ret.count, compare_held);
	free(callers);
	return ret;
}

void held_finish(struct held_list *held)
{
	free(held->list);
	arena_finish(&held->arena);
	*held = (struct held_list){ 0 };
}

/* ---- one line ---- */

#define PLACES_IN_LINE 3

void describe_held_item(FILE *out, size_t *items, uint64_t bytes, const char *name)
{
	if (bytes)
		fprintf(out, "%s%s %s", (*items)++ ? ", " : " ", SIZE(bytes), name);
}

void describe_largest_places(FILE *out, size_t *items, const struct report_holders *holders,
			     bool whole)
{
	uint64_t others = holders->other_bytes;
	AT_END(held_finish) struct held_list held = held_sum_up(holders, HELD_BY_PLACE, whole);

	for (size_t i = 0; i < held.count; i++) {
		if (i < PLACES_IN_LINE)
			describe_held_item(out, items, held.list[i].bytes, held.list[i].name);
		else
			others = add_bounded(others, held.list[i].bytes);
	}
	describe_held_item(out, items, others, "other places");
}

/* ---- the table ---- */

#define HOLDERS_SHOWN 10
#define SUMS_SHOWN 4

static void print_holder(FILE *out, const struct report_holders *holders,
			 const struct report_leak *holder, bool whole)
{
	fprintf(out, "  %12s  in %s", SIZE(holder->bytes),
		COUNT(holder->blocks, describe_unit(holder)));
	if (holder->cache)
		eprintf(out, " of the %s%s", cache_word(holder), holder->cache);
	if (report_holder_is_unused(holders, holder))
		fputs(", " SUBALLOCATIONS_UNUSED, out);
	describe_source(out, holder->site->kind, holder->site->api, -1);
	if (holder->site->stack->count || !holder->cache) { /* else several places: join_cache() */
		fputs(", at ", out);
		describe_place_and_caller(out, holder->site->stack, whole);
	}
	fputc('\n', out);
}

static void print_sums(FILE *out, const struct report_holders *holders, enum held_by by,
		      const char *heading, bool whole)
{
	AT_END(held_finish) struct held_list held = held_sum_up(holders, by, whole);

	if (held.count) {
		fprintf(out, "  %s:", heading);
		for (size_t i = 0; i < held.count && i < SUMS_SHOWN; i++)
			fprintf(out, "%s %s %s", i ? "," : "",
				SIZE(held.list[i].bytes), held.list[i].name);
		if (held.count > SUMS_SHOWN)
			fprintf(out, ", and %zu more", held.count - SUMS_SHOWN);
		fputc('\n', out);
	}
}

void describe_holders(FILE *out, const struct report_holders *holders, bool verbose)
{
	size_t shown = verbose || holders->count < HOLDERS_SHOWN ? holders->count
								      : HOLDERS_SHOWN;
	uint64_t bytes = holders->other_bytes, blocks = holders->other_blocks;
	uint64_t places = holders->other_sites + (holders->count - shown);

	for (size_t i = 0; i < holders->count; i++) {
		if (i < shown) {
			print_holder(out, holders, &holders->list[i], verbose);
			continue;
		}
		bytes = add_bounded(bytes, holders->list[i].bytes);
		blocks = add_bounded(blocks, holders->list[i].blocks);
	}
	if (places)
		fprintf(out, "  and at %s: %s in %s\n", COUNT(places, "smaller place"),
			EXACT_SIZE(bytes), COUNT(blocks, "block"));
	print_sums(out, holders, HELD_BY_CACHE, "By cache", verbose);
	print_sums(out, holders, HELD_BY_LIBRARY, "By library", verbose);
}

/* ---- JSON ---- */

json_t *json_holder(const struct report_leak *holder, const struct report_holders *holders,
		    const struct subject_view *view)
{
	bool has_unit = view->has_words && report_is_suballocation(holder);
	bool is_unused = view->has_words && report_holder_is_unused(holders, holder);

	return JSON_OBJECT(
		JSON_SITE(holder->site),
		{ "bytes", json_number(holder->bytes) },
		{ "blocks", json_number(holder->blocks) },
		{ "cache", json_text(holder->cache) },
		{ "stack", json_stack(holder->site->stack) },
		{ "site", JSON_IF(view->has_words, json_site(holder->site->stack)) },
		{ "unit", JSON_IF(has_unit, json_string(describe_unit(holder))) },
		{ "unused", JSON_IF(is_unused, json_true()) });
}

static json_t *holders_json(const struct report_holders *holders, const struct subject_view *view)
{
	json_t *ret = json_array();

	for (size_t i = 0; i < holders->count; i++)
		json_array_append_new(ret, json_holder(&holders->list[i], holders, view));
	return ret;
}

static json_t *held_json(const void *item)
{
	const struct held *held = item;

	return JSON_OBJECT(
		{ "name", json_text(held->name) },
		{ "bytes", json_number(held->bytes) },
		{ "blocks", json_number(held->blocks) });
}

static json_t *sums_json(const struct report_holders *holders, enum held_by by)
{
	AT_END(held_finish) struct held_list held = held_sum_up(holders, by, false);

	return JSON_LIST(held.list, held.count, held_json);
}

static json_t *others_json(const struct report_holders *holders)
{
	return JSON_OBJECT(
		{ "sites", json_number(holders->other_sites) },
		{ "bytes", json_number(holders->other_bytes) },
		{ "blocks", json_number(holders->other_blocks) });
}

void json_add_holders(json_t *object, const struct report_holders *holders,
		      const struct subject_view *view)
{
	JSON_ADD(object,
		 { "holders", holders_json(holders, view) },
		 { "other_holders", JSON_IF(holders->other_sites, others_json(holders)) },
		 { "places", sums_json(holders, HELD_BY_PLACE) },
		 { "caches", sums_json(holders, HELD_BY_CACHE) },
		 { "libraries", sums_json(holders, HELD_BY_LIBRARY) });
}
