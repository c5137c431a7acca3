/* SPDX-License-Identifier: MIT
 *
 * Suballocations, and the words for them. Call sites that accumulate come first, as leaks do.
 * Other live suballocations are only in verbose reports: that a program has memory which it uses
 * is no finding.
 */
#include "report/subjects/common.h"

#include <inttypes.h>

#include "report/describe/kinds.h"
#include "report/model/model_holders.h"
#include "report/model/model_suballocations.h"
#include "report/subjects/figures.h"
#include "report/subjects/findings.h"

#define RATE_MAX 1e12 /* a larger rate is impossible: the ledger is damaged */

static const struct {
	const char *cache, *word;
} pool_words[] = {
	{ "PyTorch caching allocator", "tensor" },
};

const char *suballocation_word(const char *cache)
{
	for (size_t i = 0; cache && i < sizeof(pool_words) / sizeof(pool_words[0]); i++)
		if (strcmp(pool_words[i].cache, cache) == 0)
			return pool_words[i].word;
	return "block";
}

const char *describe_unit(const struct report_leak *leak)
{
	return report_is_suballocation(leak) ? suballocation_word(leak->cache) : "block";
}

const char *suballocation_trend_word(enum report_trend trend)
{
	static const char *const words[] = {
		[TREND_UNKNOWN] = NULL, [TREND_CONSTANT] = "constant", [TREND_FILLED] = "filled",
		[TREND_ACCUMULATING] = "accumulating",
	};

	return words[trend];
}

/* Returns the index in POOLS of the pool that ENTRY belongs to. */
static size_t pool_of(const struct suballocation_pool *pools, size_t count,
		      const struct report_suballocations *entry)
{
	size_t at = 0;

	while (at < count && !is_same_text(pools[at].cache, entry->live.cache))
		at++;
	return at < SUBALLOCATION_POOLS_MAX ? at : SUBALLOCATION_POOLS_MAX - 1;
}

size_t suballocation_pools(const struct report_process *process,
			   struct suballocation_pool ret[SUBALLOCATION_POOLS_MAX])
{
	size_t count = 0;

	EACH_ITEM(process->suballocations, process->suballocation_count, entry) {
		size_t at = pool_of(ret, count, entry);

		if (!entry->live.blocks)
			continue;
		if (at == count)
			ret[count++] = (struct suballocation_pool){ .cache = entry->live.cache };
		ret[at].bytes = add_bounded(ret[at].bytes, entry->live.bytes);
		ret[at].blocks = add_bounded(ret[at].blocks, entry->live.blocks);
		if (report_accumulates(entry))
			ret[at].accumulating = add_bounded(ret[at].accumulating,
							   entry->live.blocks);
	}
	return count;
}

void describe_suballocations(FILE *out, const char *cache, uint64_t bytes, uint64_t blocks)
{
	fprintf(out, "%s in %s", EXACT_SIZE(bytes), COUNT(blocks, suballocation_word(cache)));
}

void describe_rate(FILE *out, double per_second)
{
	static const struct {
		double seconds;
		const char *word;
	} units[] = { { 1, "second" }, { 60, "minute" }, { 3600, "hour" } };
	size_t unit = 0;
	uint64_t tenths;

	while (unit < 2 && per_second * units[unit].seconds < 0.95)
		unit++;
	tenths = (uint64_t)(per_second * units[unit].seconds * 10 + 0.5);
	if (tenths < 100 && tenths % 10)
		fprintf(out, ", %" PRIu64 ".%" PRIu64, tenths / 10, tenths % 10);
	else
		fprintf(out, ", %s", NUMBER((tenths + 5) / 10));
	fprintf(out, " per %s", units[unit].word);
}

void describe_names(FILE *out, const struct report_leak *leak)
{
	for (size_t i = 0; i < leak->name_count; i++)
		eprintf(out, "%s%s", i ? ", " : "  Named: ", leak->names[i]);
	if (leak->name_count == LEAK_NAMES_MAX)
		fputs(" ...", out);
	if (leak->name_count)
		fputc('\n', out);
}

json_t *json_name(const void *item)
{
	return json_text(*(const char *const *)item);
}

static void print_kept(FILE *out, const struct report_process *process,
		       const struct report_suballocations *entry)
{
	bool runs = process->ended == REPORT_RUNNING;

	fprintf(out, "%s of %s kept", NUMBER(entry->kept_blocks),
		NUMBER(entry->allocated_blocks));
	if (!(entry->kept_per_second > 0 && entry->kept_per_second < RATE_MAX)) {
		fputs(runs ? " so far" : "", out);
		return;
	}
	describe_rate(out, entry->kept_per_second);
	fputs(runs ? " so far" : " until the loop ended", out);
}

void describe_trend(FILE *out, const struct report_process *process,
		    const struct report_suballocations *entry)
{
	if (entry->trend == TREND_ACCUMULATING)
		print_kept(out, process, entry);
	else if (entry->trend != TREND_UNKNOWN)
		fputs(entry->trend == TREND_FILLED ? "filled up and stays" : "constant", out);
}

void describe_division(FILE *out, const struct report_leak *blocks, const char *before)
{
	if (!blocks->used_bytes)
		return;
	fprintf(out, "%s%s in %ss, %s%s", before, EXACT_SIZE(blocks->used_bytes),
		suballocation_word(blocks->cache), EXACT_SIZE(blocks->bytes - blocks->used_bytes),
		" " SUBALLOCATIONS_UNUSED);
}

void describe_pool(FILE *out, const struct report_leak *live, int device)
{
	if (live->cache) {
		print_escaped(out, live->cache);
	} else {
		eprintf(out, "%s, %s", kind_words(live->site->kind), live->site->api);
	}
	if (device >= 0)
		fprintf(out, ", device %d", device);
}

/* Prints "1 tensor lies", "2 tensors lie". */
static void print_lying(FILE *out, const char *cache, uint64_t blocks)
{
	fprintf(out, "%s%s", COUNT(blocks, suballocation_word(cache)),
		blocks == 1 ? " lies" : " lie");
}

void describe_outside(FILE *out, const char *before, const struct report_process *process)
{
	struct report_places sum = { 0 };
	const char *cache = NULL;

	EACH_ITEM(process->suballocations, process->suballocation_count, entry) {
		const struct report_places *places = &entry->places;

		if (places->outside_blocks || places->partly_blocks)
			cache = entry->live.cache;
		sum.outside_blocks = add_bounded(sum.outside_blocks, places->outside_blocks);
		sum.partly_blocks = add_bounded(sum.partly_blocks, places->partly_blocks);
		sum.outside_bytes = add_bounded(sum.outside_bytes, places->outside_bytes);
	}
	if (!sum.outside_blocks && !sum.partly_blocks)
		return;
	fputs(before, out);
	if (sum.outside_blocks) {
		print_lying(out, cache, sum.outside_blocks);
		fputs(" in no driver block that gpuleak recorded", out);
	}
	if (sum.partly_blocks) {
		fputs(sum.outside_blocks ? ", and " : "", out);
		print_lying(out, cache, sum.partly_blocks);
		fputs(" only partly in a driver block that gpuleak recorded", out);
	}
	fprintf(out, ": %s of them are in memory whose allocation gpuleak did not record\n",
		EXACT_SIZE(sum.outside_bytes));
}

/* JSON has all sites */
#define ACCUMULATING_MAX 1000
#define LIVE_MAX 100 /* of each pool */

bool process_accumulates(const struct report_process *process)
{
	for (size_t i = 0; i < process->suballocation_count; i++)
		if (report_accumulates(&process->suballocations[i]))
			return true;
	return false;
}

static void print_accumulating(FILE *out, const struct finding *finding, bool first, bool whole)
{
	const struct report_frame *frame = report_stack_culprit(finding->stack);
	const struct report_leak *live = finding->leak;

	fputs("\nAccumulating: ", out);
	describe_suballocations(out, live->cache, finding->bytes, finding->blocks);
	fputs(" (", out);
	describe_pool(out, live, live->site->device);
	fputs("), ", out);
	finding_trend(out, finding);
	describe_range(out, live->site);
	fputs(", allocated at:\n", out);
	describe_stack(out, finding->stack, whole);
	describe_names(out, live);
	finding_parts(out, finding, whole);
	if (live->keepers)
		describe_keepers(out, live->keepers);
	else if (first && frame && frame->language == FRAME_PYTHON)
		fputs("  Next: `gpuleak run --keepers` names the variables that keep these\n", out);
}

/* Prints the call sites that accumulate, except those that the section about ranks prints. */
static void print_finding(FILE *out, const struct subject_view *view)
{
	const struct finding *site = NULL;
	size_t shown = 0, shared = 0;

	while ((site = findings_next(view->findings, view->process, FINDING_ACCUMULATING, site))) {
		if (finding_is_shared(site, view->ranks))
			shared++;
		else if (shown++ < ACCUMULATING_MAX)
			print_accumulating(out, site, shown == 1, view->verbose);
	}
	if (shared)
		fprintf(out, "\nAnd %s that accumulate%s in other ranks, too: listed above\n",
			COUNT(shared, "call site"), shared == 1 ? "s" : "");
	if (shown > ACCUMULATING_MAX)
		fprintf(out, "\nAnd %s that accumulate%s; --format json lists all\n",
			COUNT(shown - ACCUMULATING_MAX, "more call site"),
			shown - ACCUMULATING_MAX == 1 ? "s" : "");
}

static void print_site(FILE *out, const struct report_process *process,
		       const struct report_suballocations *entry, bool whole)
{
	fputs("  ", out);
	describe_suballocations(out, entry->live.cache, entry->live.bytes, entry->live.blocks);
	if (entry->live.site->device >= 0)
		fprintf(out, " (device %d)", entry->live.site->device);
	if (entry->trend != TREND_UNKNOWN) {
		fputs(", ", out);
		describe_trend(out, process, entry);
	}
	fputs(", allocated at:\n", out);
	describe_stack(out, entry->live.site->stack, whole);
	describe_names(out, &entry->live);
}

/* Prints the live suballocations of POOLS[INDEX]. */
static void print_pool(FILE *out, const struct report_process *process,
		       const struct suballocation_pool *pools, size_t count, size_t index,
		       bool whole)
{
	const struct suballocation_pool *pool = &pools[index];
	size_t shown = 0, rest = 0;

	fputs("\nLive inside the ", out);
	eprintf(out, "%s: ", pool->cache ? pool->cache : "blocks of a cache");
	describe_suballocations(out, pool->cache, pool->bytes, pool->blocks);
	if (pool->accumulating)
		fprintf(out, ", %s of them at call sites that accumulate\n",
			NUMBER(pool->accumulating));
	else
		fputs("; not leaks\n", out);
	EACH_ITEM(process->suballocations, process->suballocation_count, entry) {
		if (!entry->live.blocks || report_accumulates(entry) ||
		    pool_of(pools, count, entry) != index)
			continue;
		if (shown++ < LIVE_MAX)
			print_site(out, process, entry, whole);
		else
			rest++;
	}
	if (rest)
		fprintf(out, "  and %zu more call site%s; --format json lists all\n", rest,
			plural(rest));
}

static void print_details(FILE *out, const struct subject_view *view)
{
	struct suballocation_pool pools[SUBALLOCATION_POOLS_MAX];
	size_t count = view->verbose ? suballocation_pools(view->process, pools) : 0;

	for (size_t i = 0; i < count; i++)
		print_pool(out, view->process, pools, count, i, view->verbose);
}

/* Returns null for a rate that is impossible, for example infinite, because JSON has no
 * infinity. */
static json_t *rate_json(double rate)
{
	return rate >= 0 && rate < 1e15 ? json_real(rate) : json_null();
}

static json_t *entry_json(const void *item, const struct subject_view *view)
{
	const struct report_suballocations *entry = item;
	const struct report_leak *live = &entry->live;
	const struct report_places *places = &entry->places;
	uint64_t outside_blocks = add_bounded(places->outside_blocks, places->partly_blocks);
	bool is_outside = outside_blocks, ignored = entry->ignored_blocks;

	return JSON_OBJECT(
		{ "api", json_text(live->site->api) },
		{ "kind", json_text(live->site->kind) },
		{ "fingerprint", json_fingerprint(live) },
		{ "device", json_integer(live->site->device) },
		{ "bytes", json_number(live->bytes) },
		{ "blocks", json_number(live->blocks) },
		{ "cache", json_text(live->cache) },
		{ "allocated_blocks", json_number(entry->allocated_blocks) },
		{ "freed_blocks", json_number(entry->freed_blocks) },
		{ "trend", json_text(suballocation_trend_word(entry->trend)) },
		{ "kept_bytes", json_number(entry->kept_bytes) },
		{ "kept_blocks", json_number(entry->kept_blocks) },
		{ "kept_per_second", rate_json(entry->kept_per_second) },
		{ "peak_blocks", json_number(entry->peak_blocks) },
		{ "pattern", JSON_IF(live->pattern, json_text(live->pattern)) },
		{ "outside_blocks", JSON_IF(is_outside, json_number(outside_blocks)) },
		{ "outside_bytes", JSON_IF(is_outside, json_number(places->outside_bytes)) },
		{ "doubled_bytes", JSON_IF(places->doubled_bytes,
					   json_number(places->doubled_bytes)) },
		{ "ignored_blocks", JSON_IF(ignored, json_number(entry->ignored_blocks)) },
		{ "ignored_bytes", JSON_IF(ignored, json_number(entry->ignored_bytes)) },
		{ "range", JSON_IF(live->site->range, json_text(live->site->range)) },
		{ "names", JSON_LIST_IF_ANY(live->names, live->name_count, json_name) },
		{ "keepers", JSON_IF(live->keepers, json_keepers(live->keepers)) },
		{ "keepers_seconds", JSON_IF(live->keepers, json_keepers_time(live->keepers)) },
		{ "ledger_site", JSON_IF(live->addresses, json_number(live->addresses->site)) },
		{ "addresses", JSON_IF(live->addresses, json_addresses(live->addresses)) },
		{ "stack", json_stack(live->site->stack) },
		{ "site", JSON_IF(view->has_words, json_site(live->site->stack)) },
		{ "unit", JSON_IF(view->has_words, json_string(suballocation_word(live->cache))) },
		{ "trend_text", JSON_IF(view->has_words,
					JSON_PRINTED(to, describe_trend(to, view->process,
									entry))) });
}

static void add_json(json_t *object, const struct subject_view *view)
{
	const struct report_process *process = view->process;

	if (process->has_suballocations || process->has_counted_blocks)
		json_set(object, "suballocations",
			 JSON_LIST_FOR(view, process->suballocations,
				       process->suballocation_count, entry_json));
}

/* ---- metrics ---- */

/* Live suballocations of one pool on one device. */
struct pool_sum {
	const char *cache;
	int device;
	uint64_t bytes, blocks;
};

static size_t sum_pools(const struct report_process *process,
			struct pool_sum sums[METRIC_ITEMS_MAX])
{
	size_t count = 0;

	for (size_t i = 0; process->has_suballocations && i < process->suballocation_count; i++) {
		const struct report_leak *live = &process->suballocations[i].live;
		const char *cache = live->cache ? live->cache : "";
		size_t at = 0;

		while (at < count && (sums[at].device != live->site->device ||
				      strcmp(sums[at].cache, cache) != 0))
			at++;
		if (at == METRIC_ITEMS_MAX)
			continue;
		if (at == count)
			sums[count++] = (struct pool_sum){ cache, live->site->device, 0, 0 };
		sums[at].bytes = add_bounded(sums[at].bytes, live->bytes);
		sums[at].blocks = add_bounded(sums[at].blocks, live->blocks);
	}
	return count;
}

static void print_suballocated(FILE *out, const struct report *report, bool bytes)
{
	const char *name = bytes ? "gpuleak_suballocated_bytes" : "gpuleak_suballocated_blocks";
	struct pool_sum sums[METRIC_ITEMS_MAX];

	metric_family(out, name, "gauge",
	       bytes ? "Bytes of live tensors and arrays inside the blocks that a framework caches."
		     : "Live tensors and arrays inside the blocks that a framework caches.");
	for (size_t i = 0; i < metric_processes(report); i++) {
		size_t count = sum_pools(report->processes[i], sums);

		for (size_t at = 0; at < count; at++) {
			metric_begin(out, name, report, i);
			metric_device(out, sums[at].device);
			metric_label(out, "cache", sums[at].cache);
			metric_end(out, bytes ? sums[at].bytes : sums[at].blocks);
		}
	}
}

static void print_accumulating_metrics(FILE *out, const struct report *report,
			       const struct findings *findings)
{
	static const char name[] = "gpuleak_accumulating_sites";
	const struct finding *sites =
		findings->all + findings_first(findings, FINDING_ACCUMULATING);
	size_t count = findings->counts[FINDING_ACCUMULATING];

	metric_family(out, name, "gauge", "Call sites whose tensors or blocks accumulate.");
	for (size_t i = 0; i < metric_processes(report); i++) {
		uint64_t of_process = 0;

		if (!report->processes[i]->has_suballocations &&
		    !report->processes[i]->has_counted_blocks)
			continue;
		for (size_t at = 0; at < count; at++)
			of_process += sites[at].process_index == i;
		metric_begin(out, name, report, i);
		metric_end(out, of_process);
	}
	metric_sites(out, report, "gpuleak_site_accumulated", "Accumulated", "tensors or blocks",
		     sites, count);
}

/* Prints nothing if no process has suballocations, or blocks that were counted. */
static void print_metrics(FILE *out, const struct report *report,
			  const struct findings *findings)
{
	bool any = false, counted = false;

	for (size_t i = 0; i < metric_processes(report); i++) {
		any |= report->processes[i]->has_suballocations;
		counted |= report->processes[i]->has_counted_blocks;
	}
	if (any) {
		print_suballocated(out, report, true);
		print_suballocated(out, report, false);
	}
	if (any || counted)
		print_accumulating_metrics(out, report, findings);
}

const struct subject subject_suballocations = {
	.build = build_suballocations,
	.chunks = CHUNK_BIT(SUBALLOCATION_SITES) | CHUNK_BIT(SUBALLOCATIONS) |
		  CHUNK_BIT(LIVE_SERIES),
	.only_if = PART(suballocation_count), .has_keys_always = true,
	.finding = print_finding, .details = print_details, .is_wrong = process_accumulates,
	.json = add_json, .metrics = print_metrics,
};
