/* SPDX-License-Identifier: MIT
 *
 * Objects that are not memory, by kind and by call site: created, destroyed, ended with their
 * context, live. Counts all objects, also those that the choice of blocks leaves out. Prints those
 * that were left, the largest groups first. They are not leaks, but may keep memory allocated, and
 * the driver uses memory for them.
 */
#include "report/subjects/subject.h"

#include <stdlib.h>
#include <string.h>

#include "report/describe/describe_stack.h"
#include "report/describe/json_helpers.h"
#include "report/describe/json_values.h"
#include "report/describe/kinds.h"
#include "report/model/builder.h"
#include "report/model/model.h"
#include "report/model/model_driver_memory.h"
#include "report/subjects/figures.h"
#include "report/subjects/subject_words.h"
#include "report/util/escape.h"
#include "report/util/number.h"

/* The sum of all records of one call site. */
struct object_site {
	struct site_entry entry;
	uint64_t created, with_context, unseen, live;
};

struct object_kind {
	struct site_entry entry;
	struct report_object_kind public;
};

static void walk_sites(struct site_list *sites)
{
	struct ledger_walk walk = { 0 };
	const struct ledger_site *record;

	while ((record = ledger_next_site(sites->b->view, &walk))) {
		struct object_site *site;

		if (!ledger_site_is_object(sites->b->view, record))
			continue;
		site = site_list_get(sites, intern_site(sites->b, record));
		site->created = add_bounded(site->created, record->allocs);
		site->with_context = add_bounded(site->with_context, record->with_context);
		site->unseen = add_bounded(site->unseen, record->unseen);
	}
}

static void walk_blocks(struct site_list *sites)
{
	struct ledger_walk walk = { 0 };
	const struct ledger_block *block;

	while (sites->count && (block = ledger_next_live(sites->b->view, &walk))) {
		struct build_site *site = intern_site_of_block(sites->b, block->site);

		if (kind_is_object(site->site.kind))
			((struct object_site *)site_list_get(sites, site))->live++;
	}
}

static void add_site(const struct object_site *site, struct report_object_counts *to)
{
	uint64_t other = add_bounded(add_bounded(site->with_context, site->unseen), site->live);

	to->created = add_bounded(to->created, site->created);
	to->with_context = add_bounded(to->with_context, site->with_context);
	to->destroyed = add_bounded(to->destroyed,
				    site->created > other ? site->created - other : 0);
}

static int compare_kinds(const void *left, const void *right)
{
	const struct report_object_kind *a = left, *b = right;

	return strcmp(a->kind, b->kind);
}

static void sum_up(struct builder *b, const struct site_list *sites)
{
	struct site_list kinds = site_list(b, sizeof(struct object_kind));
	struct report_process *process = b->process;
	const struct object_site *site;
	struct object_kind *kind;

	EACH_SITE(sites, site) {
		struct report_leak *group = build_known_group(site->entry.site);

		kind = site_list_get(&kinds, intern_kind(b, site->entry.site->site.kind, -1));
		kind->public.live = add_bounded(kind->public.live, site->live);
		add_site(site, &kind->public.counts);
		if (group && group->objects)
			add_site(site, group->objects);
	}
	EACH_SITE(&kinds, kind) {
		kind->public.kind = kind->entry.site->site.kind;
		*ARENA_ADD(b->arena, process->object_kinds, process->object_kind_count) =
			kind->public;
	}
	SORT(process->object_kinds, process->object_kind_count, compare_kinds);
}

static void build(struct builder *b)
{
	struct site_list sites = site_list(b, sizeof(struct object_site));

	walk_sites(&sites);
	walk_blocks(&sites);
	sum_up(b, &sites);
}

/* ---- text ---- */

#define OBJECTS_MAX 100 /* JSON has all objects */

/* Returns the innermost frame of STACK whose role is not FRAME_RUNTIME, or NULL. */
static const struct report_frame *maker_of(const struct report_stack *stack)
{
	for (size_t i = 0; i < stack->count; i++)
		if (stack->frames[i].role != FRAME_RUNTIME)
			return &stack->frames[i];
	return NULL;
}

/* Returns true if the application should have destroyed OBJECT, and no suppression matches it.
 * Frameworks keep streams, events and handles until the process ends, and the CUDA runtime itself
 * loads the program's kernels. */
static bool is_of_program(const struct report_leak *object)
{
	const struct report_stack *stack = object->site->stack;
	const struct report_frame *maker = maker_of(stack);
	bool code = strcmp(object->site->kind, "object/library") == 0 ||
		    strcmp(object->site->kind, "object/module") == 0;

	return !object->pattern && !stack->cache &&
	       !(maker && maker->role == FRAME_FRAMEWORK) &&
	       !(code && stack->count && stack->frames[0].role == FRAME_RUNTIME);
}

static bool is_context(const char *kind)
{
	return strstr(kind, "context") != NULL;
}

/* Returns true if the report of PROCESS names its objects: if one is not a context. Each CUDA
 * program has a context, and many leave it to the end of the process. */
static bool has_line(const struct report_process *process)
{
	for (size_t i = 0; i < process->object_count; i++)
		if (is_of_program(&process->objects[i]) &&
		    !is_context(process->objects[i].site->kind))
			return true;
	return false;
}

/* Returns the number of objects of KIND that the application should have destroyed. */
static uint64_t left_of(const struct report_process *process, const char *kind)
{
	uint64_t left = 0;

	for (size_t i = 0; i < process->object_count; i++)
		if (is_of_program(&process->objects[i]) && process->objects[i].site->kind == kind)
			left = add_bounded(left, process->objects[i].blocks);
	return left;
}

void describe_objects(FILE *out, const struct report_process *process, const char *before,
			const char *after)
{
	char objects[FORMAT_OBJECTS_MAX];

	if (!has_line(process))
		return;
	fputs(before, out);
	before = process->ended == REPORT_RUNNING ? "not destroyed so far: " : "never destroyed: ";
	for (size_t i = 0; i < process->object_kind_count; i++) {
		const char *kind = process->object_kinds[i].kind;
		uint64_t left = left_of(process, kind);

		if (!left)
			continue;
		format_objects(left, kind, objects);
		eprintf(out, "%s%s", before, objects);
		before = ", ";
	}
	fprintf(out, " (--verbose 1 shows where they were made)%s", after);
}

static void print_totals(FILE *out, const struct report_process *process)
{
	fputs("\nObjects that are not memory:\n", out);
	for (size_t i = 0; i < process->object_kind_count; i++) {
		const struct report_object_kind *kind = &process->object_kinds[i];

		eprintf(out, "  %s: %s created, %s destroyed", kind_words(kind->kind),
			NUMBER(kind->counts.created), NUMBER(kind->counts.destroyed));
		if (kind->counts.with_context)
			fprintf(out, ", %s ended with their context",
				NUMBER(kind->counts.with_context));
		fprintf(out, ", %s left\n", NUMBER(kind->live));
	}
}

static void print_finding(FILE *out, const struct subject_view *view)
{
	if (!view->verbose && view->process->leak_count)
		describe_objects(out, view->process, "gpuleak: ", "\n");
}

static void print_details(FILE *out, const struct subject_view *view)
{
	const struct report_process *process = view->process;
	char text[FORMAT_OBJECTS_MAX];

	if (!view->verbose)
		return;
	for (size_t i = 0; i < process->object_count && i < OBJECTS_MAX; i++) {
		const struct report_leak *object = &process->objects[i];

		format_objects(object->blocks, object->site->kind, text);
		fputs("\nNot released: ", out);
		print_escaped(out, text);
		if (object->objects->created > object->blocks)
			fprintf(out, " of %s", NUMBER(object->objects->created));
		eprintf(out, ", made by %s at:\n", object->site->api);
		describe_stack(out, object->site->stack, view->verbose);
		if (object->history)
			describe_history(out, object->history, object->blocks, view->verbose);
	}
	if (process->object_count > OBJECTS_MAX)
		fprintf(out, "\nAnd %s more; --format json lists all\n",
			NUMBER(process->object_count - OBJECTS_MAX));
	print_totals(out, process);
}

/* Returns the word of KIND in JSON. For CUDA's kinds these words have no prefix. OpenCL's kinds
 * keep their prefix, because it was in JSON from the beginning. */
const char *json_object_word(const char *kind)
{
	return strncmp(object_name(kind), "cl-", 3) == 0 ? kind : object_name(kind);
}

static const struct figure rows[] = {
	{ "count", FIGURE(report_object_kind, live), .metric = "",
	  .help = "Objects that are not memory and not destroyed." },
	{ "created", FIGURE(report_object_kind, counts.created), .metric = "_created_total",
	  .help = "Objects that are not memory and were created." },
	{ "destroyed", FIGURE(report_object_kind, counts.destroyed), .metric = "_destroyed_total",
	  .help = "Objects that are not memory and were destroyed." },
	{ "ended_with_context", FIGURE(report_object_kind, counts.with_context) },
};

static const void *item(const struct report_process *process, size_t i, FILE *labels)
{
	const struct report_object_kind *kind;

	if (i >= process->object_kind_count || i >= METRIC_ITEMS_MAX)
		return NULL;
	kind = &process->object_kinds[i];
	if (labels)
		metric_label(labels, "kind", object_name(kind->kind));
	return kind;
}

static const struct figures figures = { .prefix = "gpuleak_objects", FIGURES(rows), .item = item,
					.is_optional = true };

static json_t *kind_json(const void *kind)
{
	const char *name = ((const struct report_object_kind *)kind)->kind;
	json_t *ret = JSON_OBJECT({ "kind", json_text(json_object_word(name)) });

	figures_add_json(ret, &figures, kind);
	return ret;
}

/* Returns what the driver took for the contexts of OBJECT that are left; null if it was not
 * measured for each context of the call site. */
static json_t *cost_json(const struct report_process *process, const struct report_leak *object)
{
	for (size_t i = 0; i < process->driver_cost_count; i++) {
		const struct report_driver_cost *cost = &process->driver_costs[i];

		if (cost->site->api == object->site->api &&
		    cost->site->stack == object->site->stack && cost->calls &&
		    cost->measured == cost->calls && cost->bytes > 0)
			return json_number((uint64_t)cost->bytes / cost->calls * object->blocks);
	}
	return json_null();
}

static json_t *object_json(const void *item, const struct subject_view *view)
{
	const struct report_leak *object = item;

	return JSON_OBJECT(
		{ "api", json_text(object->site->api) },
		{ "kind", json_text(json_object_word(object->site->kind)) },
		{ "fingerprint", json_fingerprint(object) },
		{ "count", json_number(object->blocks) },
		{ "created", json_number(object->objects->created) },
		{ "destroyed", json_number(object->objects->destroyed) },
		{ "ended_with_context", json_number(object->objects->with_context) },
		{ "device", json_integer(object->site->device) },
		{ "pattern", JSON_IF(object->pattern, json_text(object->pattern)) },
		{ "references", json_number(object->references) },
		{ "keeps_bytes", JSON_IF(is_context(object->site->kind),
					 cost_json(view->process, object)) },
		{ "stack", json_stack(object->site->stack) },
		{ "history", JSON_IF(object->history, json_history(object->history)) });
}

static void add_json(json_t *object, const struct subject_view *view)
{
	const struct report_process *process = view->process;

	json_set(object, "objects",
		 JSON_LIST_FOR(view, process->objects, process->object_count, object_json));
	json_set(object, "object_kinds", JSON_LIST_IF_ANY(process->object_kinds,
							  process->object_kind_count, kind_json));
}

const struct subject subject_objects = {
	.build = build, .only_if = PART(object_count), .has_keys_always = true,
	.finding = print_finding, .details = print_details, .json = add_json, .figures = &figures,
};
