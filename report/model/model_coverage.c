/* SPDX-License-Identifier: MIT
 *
 * Merges the observations of a ledger: one entry per kind and subject. Writes the sentences
 * about what was not intercepted. Must not print or decide the gate.
 */
#include "report/model/model_coverage.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "report/model/builder.h"
#include "report/util/number.h"

/* A module that looks up at least this many functions is assumed to look up all of them. The CUDA
 * runtime does so (about 440 at its first call). A lookup then does not prove a use. */
#define WHOLESALE 150
#define REFERRED "referred-"
#define NAMES_MAX 8 /* maximum number of names in one sentence */

const struct coverage_route coverage_routes[] = {
	{ "cuGetProcAddress", "cuGetProcAddress" },
	{ "dlsym", "dlsym" },
	{ "extension", "extension lookups" },
	{ "layer", "a layer of the loader" },
	{ "linked", "linked calls" },
};
const size_t coverage_route_count = sizeof(coverage_routes) / sizeof(coverage_routes[0]);

static const struct coverage_reach reaches[] = {
	{ "deepbind", "RTLD_DEEPBIND",
	  "it was opened with RTLD_DEEPBIND and calls the driver directly; GPULEAK_DEEPBIND=cover "
	  "opens it without that flag" },
	{ "in-front", "another preload",
	  "it is loaded before libgpuleak.so and has the driver's functions; put libgpuleak.so "
	  "first into LD_PRELOAD" },
	{ "namespace", "dlmopen",
	  "it was loaded into a separate namespace (dlmopen), where no library is preloaded" },
	{ "export-table", "export table",
	  "it has an internal table of the driver (cuGetExportTable) and may call through that "
	  "table" },
	{ "no-loader", "no OpenCL loader",
	  "it is an OpenCL driver that is called without an OpenCL loader" },
};

const struct coverage_reach *coverage_reach(const char *kind)
{
	for (size_t i = 0; i < sizeof(reaches) / sizeof(reaches[0]); i++)
		if (strcmp(reaches[i].kind, kind) == 0)
			return &reaches[i];
	return NULL;
}

const struct report_observation *coverage_observation(const struct report_coverage *coverage,
						      const char *kind, size_t i)
{
	for (size_t at = 0; at < coverage->count; at++)
		if (strcmp(coverage->observations[at].kind, kind) == 0 && i-- == 0)
			return &coverage->observations[at];
	return NULL;
}

/* ---- reading ---- */

struct raw {
	const char *kind, *subject, *module, *detail; /* module, detail: NULL if there is none */
	uint64_t count;
	/* the module is linked with the function, which does not prove that it uses it */
	bool referred;
};

static int compare_raw(const void *left, const void *right)
{
	const struct raw *a = left, *b = right;

	return strcmp(a->kind, b->kind) ?: strcmp(a->subject, b->subject)
	       ?: compare_texts(a->module, b->module);
}

static struct raw read_raw(struct builder *b, const struct ledger_observation *record)
{
	struct raw ret = { .kind = build_text(b, record->kind),
			   .subject = build_text(b, record->subject),
			   .module = build_text(b, record->module),
			   .detail = build_text(b, record->detail), .count = record->count };

	if (!ret.kind)
		ret.kind = "";
	if (!ret.subject)
		ret.subject = "";
	if (strncmp(ret.kind, REFERRED, sizeof(REFERRED) - 1) == 0) {
		ret.kind += sizeof(REFERRED) - 1;
		ret.referred = true;
	}
	return ret;
}

/* Returns true if MODULE looked up so many functions that one lookup does not prove a use. */
static bool is_wholesale(const struct raw *raw, size_t count, const char *module)
{
	for (size_t i = 0; i < count; i++)
		if (module && raw[i].module && raw[i].count >= WHOLESALE &&
		    strcmp(raw[i].kind, "cuGetProcAddress") == 0 &&
		    strcmp(raw[i].module, module) == 0)
			return true;
	return false;
}

/* Changes the kind of lookups of driver-internal tables by a CUDA runtime, because the tables that
 * runtimes use are known. */
static void find_runtimes(struct raw *raw, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(raw[i].kind, "export-table") == 0 &&
		    is_wholesale(raw, count, raw[i].module))
			raw[i].kind = "known-export-table";
}

/* Returns all records of coverage in order. The caller frees them. */
static struct raw *read_all(struct builder *b, size_t *ret_count)
{
	struct ledger_walk walk = { 0 };
	const struct ledger_observation *record;
	struct raw *ret = NULL;
	size_t count = 0;

	for (size_t i = 0; i < LEDGER_OBSERVATIONS_MAX; i++) {
		record = ledger_next_observation(b->view, &walk);
		if (!record)
			break;
		ret = list_grow(ret, count, sizeof(*ret));
		ret[count] = read_raw(b, record);
		count += !build_is_of_program(ret[count].kind);
	}
	find_runtimes(ret, count);
	SORT(ret, count, compare_raw);
	*ret_count = count;
	return ret;
}

static bool same_subject(const struct raw *a, const struct raw *b)
{
	return strcmp(a->kind, b->kind) == 0 && strcmp(a->subject, b->subject) == 0;
}

/* Merges RAW[*AT] and the following records with the same kind and subject into *RET. Moves *AT
 * behind them. */
static void put_together(const struct raw *raw, size_t count, size_t wholesale_count,
			 const struct raw *wholesale, size_t *at, const char **modules,
			 struct report_observation *ret)
{
	const struct raw *first = &raw[*at];

	*ret = (struct report_observation){ .kind = first->kind, .subject = first->subject,
					    .detail = first->detail, .modules = modules };
	for (; *at < count && same_subject(first, &raw[*at]); ++*at) {
		const struct raw *one = &raw[*at];

		ret->count = add_bounded(ret->count, one->count);
		if (!ret->asked_for && !one->referred &&
		    !is_wholesale(wholesale, wholesale_count, one->module))
			ret->asked_for = true;
		if (one->module && (ret->module_count == 0 ||
				    strcmp(modules[ret->module_count - 1], one->module) != 0))
			modules[ret->module_count++] = one->module;
	}
}

static void read_facts(struct builder *b, struct report_coverage *ret)
{
	struct report_observation *observations;
	size_t count, used = 0, routes = 0, from = 0;
	struct raw *raw = read_all(b, &count);
	const char **modules;

	/* Find the records of cuGetProcAddress, which are consecutive. */
	while (from < count && strcmp(raw[from].kind, "cuGetProcAddress") != 0)
		from++;
	while (from + routes < count && strcmp(raw[from + routes].kind, "cuGetProcAddress") == 0)
		routes++;
	observations = arena_alloc(b->arena, (count + 1) * sizeof(*observations));
	modules = arena_alloc(b->arena, (count + 1) * sizeof(*modules));
	for (size_t at = 0; at < count; used++) {
		put_together(raw, count, routes, raw + from, &at, modules, &observations[used]);
		modules += observations[used].module_count;
	}
	free(raw);
	ret->observations = observations;
	ret->count = used;
}

/* ---- sentences ---- */

struct sentences {
	const char **items;
	size_t count;
};

static void add_sentence(struct sentences *sentences, const char *text)
{
	sentences->items[sentences->count++] = text;
}

static const char *join(struct builder *b, const char *before, const char *name, size_t number)
{
	if (number > NAMES_MAX)
		return before;
	if (number == NAMES_MAX)
		return arena_printf(b->arena, "%s ...", before);
	return arena_printf(b->arena, "%s%s%s", before, number ? ", " : "", name);
}

static void add_reach_gap(struct builder *b, const struct report_observation *seen,
			  struct sentences *sentences)
{
	const struct coverage_reach *reach = coverage_reach(seen->kind);

	for (size_t i = 0; reach && i < seen->module_count; i++)
		add_sentence(sentences,
			     arena_printf(b->arena, "%s calls of %s are not seen: %s",
					  strcmp(seen->kind, "export-table") == 0 ? "some"
										  : seen->subject,
					  seen->modules[i], reach->reason));
}

static bool is_untracked(const struct report_observation *seen)
{
	return seen->asked_for && seen->detail && strcmp(seen->kind, "untracked") == 0;
}

/* Writes one sentence for all functions that are not tracked for the same reason. FIRST is the
 * index of the first of these observations. */
static void add_untracked_gap(struct builder *b, const struct report_coverage *coverage,
			      size_t first, struct sentences *sentences)
{
	const char *reason = coverage->observations[first].detail, *names = "";
	size_t number = 0;

	for (size_t i = 0; i < coverage->count; i++) {
		const struct report_observation *seen = &coverage->observations[i];

		if (!is_untracked(seen) || strcmp(seen->detail, reason) != 0)
			continue;
		if (i < first)
			return;
		names = join(b, names, seen->subject, number++);
	}
	add_sentence(sentences, arena_printf(b->arena, "looked up, but not tracked: %s: %s", names,
					     reason));
}

static void add_unclassed_gap(struct builder *b, const struct report_coverage *coverage,
			      struct sentences *sentences)
{
	const struct report_observation *seen;
	const char *names = "";
	size_t number = 0;

	while ((seen = coverage_observation(coverage, "unclassed", number)))
		names = join(b, names, seen->subject, number++);
	if (number == 0)
		return;
	add_sentence(sentences,
		     arena_printf(b->arena,
				  "%s: unknown to this version of gpuleak, perhaps because the "
				  "driver is newer; memory that %s allocates or frees is not in "
				  "this report",
				  names,
				  number == 1 ? "this function" : "one of these functions"));
}

static void list_gaps(struct builder *b, struct report_coverage *coverage)
{
	struct sentences sentences = { NULL, 0 };
	size_t room = coverage->count + 2;

	for (size_t i = 0; i < coverage->count; i++)
		room += coverage->observations[i].module_count;
	sentences.items = arena_alloc(b->arena, room * sizeof(*sentences.items));
	for (size_t i = 0; i < coverage->count; i++)
		add_reach_gap(b, &coverage->observations[i], &sentences);
	for (size_t i = 0; i < coverage->count; i++)
		if (is_untracked(&coverage->observations[i]))
			add_untracked_gap(b, coverage, i, &sentences);
	add_unclassed_gap(b, coverage, &sentences);
	if (coverage_observation(coverage, "lost", 0))
		add_sentence(&sentences, "the ledger had no room to record all ways by "
					 "which the program reaches a driver");
	coverage->gaps = sentences.items;
	coverage->gap_count = sentences.count;
}

void build_coverage(struct builder *b)
{
	read_facts(b, &b->process->coverage);
	list_gaps(b, &b->process->coverage);
}
