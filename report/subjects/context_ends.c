/* SPDX-License-Identifier: MIT
 *
 * Memory that was live when its context was destroyed or reset. The driver returned it, but no call
 * of the program freed it. The end of the process ends no context in this sense.
 */
#include "report/subjects/common.h"

#include "report/subjects/figures.h"
#include "report/subjects/findings.h"

#define ENDS_MAX 1000 /* JSON has all */

/* ---- build ---- */

struct end_node {
	struct report_context_end public;
	struct end_node *next;
};

/* The counters of the call sites are the truth: what no record explains was ended by an unknown
 * call, and what a damaged ledger has beyond them is left out. */

/* What the records have not explained yet of the blocks of one record of a call site. */
struct unexplained {
	const struct ledger_site *record;
	uint64_t blocks, bytes;
	struct unexplained *next;
};

struct end_gathering {
	struct builder *b;
	struct table sites; /* struct unexplained, by the ref of its call site */
	struct table ends;  /* struct end_node */
	struct unexplained *first_site;
	struct end_node *first;
	size_t count;
};

static bool same_end(const void *value, const void *key)
{
	const struct report_context_end *a = &((const struct end_node *)value)->public, *b = key;

	return a->lost.site == b->lost.site && a->lost.ignored == b->lost.ignored &&
	       a->ended.api == b->ended.api && a->ended.stack == b->ended.stack;
}

static struct report_context_end *intern_end(struct end_gathering *g,
					     const struct ledger_site *record,
					     const struct report_event *ended, bool ignored)
{
	const struct report_context_end key = {
		.lost = { .site = &intern_site(g->b, record)->site, .ignored = ignored },
		.ended = *ended,
	};
	uint64_t hash = hash_number((uintptr_t)key.lost.site, (uintptr_t)ended->stack);
	struct end_node *node;

	hash = hash_number((uintptr_t)ended->api, hash_number(ignored, hash));
	node = table_find(&g->ends, hash, same_end, &key);
	if (node)
		return &node->public;
	node = arena_alloc(g->b->arena, sizeof(*node));
	*node = (struct end_node){ key, g->first };
	g->first = node;
	g->count++;
	table_add(g->b->arena, &g->ends, hash, node);
	return &node->public;
}

/* Moves BLOCKS and BYTES, or what is left of them, from SITE to END. */
static void explain(struct unexplained *site, struct report_leak *lost, uint64_t blocks,
		    uint64_t bytes)
{
	blocks = blocks < site->blocks ? blocks : site->blocks;
	bytes = bytes < site->bytes ? bytes : site->bytes;
	site->blocks -= blocks;
	site->bytes -= bytes;
	lost->blocks = add_bounded(lost->blocks, blocks);
	lost->bytes = add_bounded(lost->bytes, bytes);
}

static void add_sites(struct end_gathering *g)
{
	struct unexplained *site;

	LEDGER_EACH(site, record, g->b->view) {
		if (!record->with_context || ledger_site_is_object(g->b->view, record))
			continue;
		site = arena_alloc(g->b->arena, sizeof(*site));
		*site = (struct unexplained){ record, record->with_context,
					      record->with_context_bytes, g->first_site };
		g->first_site = site;
		table_add_ref(g->b->arena, &g->sites, build_ref(g->b, record), site);
	}
}

static void add_records(struct end_gathering *g)
{
	LEDGER_EACH(context_end, record, g->b->view) {
		const struct ref_node *known = table_find_ref(&g->sites, record->site);
		struct unexplained *site = known ? (struct unexplained *)known->value : NULL;
		struct report_event ended;

		if (!site || !site->blocks || !record->blocks)
			continue;
		ended = build_event(g->b, record->api, record->stack, 0);
		explain(site, &intern_end(g, site->record, &ended,
					  record->flags & LEDGER_CONTEXT_END_IGNORED)->lost,
			record->blocks, record->bytes);
	}
}

static void add_unexplained(struct end_gathering *g)
{
	const struct report_event unknown = { .stack = &build_no_stack };

	for (struct unexplained *site = g->first_site; site; site = site->next)
		if (site->blocks)
			explain(site, &intern_end(g, site->record, &unknown, false)->lost,
				site->blocks, site->bytes);
}

static int compare_ends(const void *left, const void *right)
{
	const struct report_context_end *a = left, *b = right;
	int r = build_compare_leaks(&a->lost, &b->lost);

	return r ? r : build_compare_stacks(a->ended.stack, b->ended.stack);
}

/* Finds the pattern that suppresses each entry, or its cache, and adds up the others. */
static void classify(struct builder *b)
{
	struct report_summary *sum = &b->process->summary;

	for (size_t i = 0; i < b->process->context_end_count; i++) {
		struct report_leak *lost = &b->process->context_ends[i].lost;

		lost->pattern = lost->ignored ? REPORT_IGNORED
					      : build_suppress(b, lost->site->stack, lost->blocks,
							       lost->bytes);
		lost->cache = lost->pattern ? NULL : lost->site->stack->cache;
		if (!report_is_lost(lost))
			continue;
		sum->ended_with_context_blocks =
			add_bounded(sum->ended_with_context_blocks, lost->blocks);
		sum->ended_with_context_bytes =
			add_bounded(sum->ended_with_context_bytes, lost->bytes);
	}
}

static void build(struct builder *b)
{
	struct report_process *process = b->process;
	struct end_gathering g = { .b = b };

	add_sites(&g);
	add_records(&g);
	add_unexplained(&g);
	process->context_ends = arena_alloc(b->arena, g.count * sizeof(*process->context_ends));
	for (const struct end_node *node = g.first; node; node = node->next)
		process->context_ends[process->context_end_count++] = node->public;
	SORT(process->context_ends, process->context_end_count, compare_ends);
	classify(b);
}

/* ---- text ---- */

void describe_context_end(FILE *out, const struct report_context_end *end, bool whole)
{
	if (end->ended.api)
		describe_event(out, "The context was ended by", &end->ended, " at", whole);
	else
		fputs("  It is not known which call ended the context.\n", out);
}

static void print_finding(FILE *out, const struct subject_view *view)
{
	const struct finding *end = NULL;
	size_t shown = 0;

	while ((end = findings_next(view->findings, view->process, FINDING_CONTEXT_END, end))) {
		const struct report_site *site = end->leak->site;

		if (shown++ >= ENDS_MAX)
			continue;
		fprintf(out, "\nEnded with its context: %s in %s", EXACT_SIZE(end->bytes),
			COUNT(end->blocks, "block"));
		describe_source(out, site->kind, site->api, site->device);
		fputs(", never freed, allocated at:\n", out);
		describe_stack(out, site->stack, view->verbose);
		finding_parts(out, end, view->verbose);
		describe_context_end(out, end->end, view->verbose);
	}
	if (shown > ENDS_MAX)
		fprintf(out, "\nAnd %s that ended with a context; --format json lists all\n",
			COUNT(shown - ENDS_MAX, "smaller entry"));
}

/* ---- JSON ---- */

static json_t *end_json(const void *item, const struct subject_view *view)
{
	const struct report_context_end *end = item;
	const struct report_leak *lost = &end->lost;

	return JSON_OBJECT(
		{ "api", json_text(lost->site->api) },
		{ "kind", json_text(lost->site->kind) },
		{ "fingerprint", json_fingerprint(lost) },
		{ "partial", JSON_IF(lost->site->stack->partial, json_true()) },
		{ "device", json_integer(lost->site->device) },
		{ "bytes", json_number(lost->bytes) },
		{ "blocks", json_number(lost->blocks) },
		{ "cache", json_text(lost->cache) },
		{ "stack", json_stack(lost->site->stack) },
		{ "ended", json_event(&end->ended) },
		{ "pattern", JSON_IF(lost->pattern, json_text(lost->pattern)) },
		{ "site", JSON_IF(view->has_words, json_site(lost->site->stack)) });
}

static void print_metrics(FILE *out, const struct report *report, const struct findings *findings)
{
	size_t count = findings->counts[FINDING_CONTEXT_END];

	if (count)
		metric_sites(out, report, "gpuleak_site_ended_with_context",
			     "Ended with their context:", "blocks",
			     &findings->all[findings_first(findings, FINDING_CONTEXT_END)], count);
}

const struct subject subject_context_ends = {
	.build = build, .only_if = PART(context_end_count), .finding = print_finding,
	.wrong_if = PART(summary.ended_with_context_blocks), .metrics = print_metrics,
	LIST("ended_with_context", context_ends, context_end_count, .of_view = end_json),
};
