/* SPDX-License-Identifier: MIT
 *
 * Objects that are not memory, by kind and by call site: created, destroyed, ended with their
 * context, live. Counts all objects, also those that the choice of blocks leaves out. Prints those
 * that were left, the largest groups first, and if they accumulate. They are not leaks, but may
 * keep memory allocated, and the driver uses memory for them.
 */
#include "report/subjects/common.h"

#include "report/describe/kinds.h"
#include "report/model/accumulation_rule.h"
#include "report/model/model_driver_memory.h"
#include "report/subjects/figures.h"

/* The sum of all records of one call site. */
struct object_site {
	struct site_entry entry;
	uint64_t created, with_context, unseen, live;
	uint64_t made[LEDGER_WINDOWS]; /* of `live`, by the window in which they were made */
};

struct object_kind {
	struct site_entry entry;
	struct report_object_kind public;
};

static void walk_sites(struct site_list *sites)
{
	LEDGER_EACH(site, record, sites->b->view) {
		struct object_site *site;

		if (!ledger_site_is_object(sites->b->view, record))
			continue;
		site = site_list_get(sites, intern_site(sites->b, record));
		site->created = add_bounded(site->created, record->allocs);
		site->with_context = add_bounded(site->with_context, record->with_context);
		site->unseen = add_bounded(site->unseen, record->unseen);
	}
}

static void count_live(struct site_list *sites, uint64_t window_ns)
{
	for (size_t i = 0; i < sites->b->object_count; i++) {
		const struct ledger_block *block = sites->b->objects[i];
		uint64_t window = block->time_ns / window_ns;
		struct object_site *objects =
			site_list_get(sites, intern_site_of_block(sites->b, block->site));

		objects->live++;
		objects->made[window < LEDGER_WINDOWS ? window : LEDGER_WINDOWS - 1]++;
	}
}

#define WINDOW_NS_MIN 10000000u /* a tick of the ledger's clock */

/* Judges by the rule for tensors if the objects of SITE accumulated: of those that are left, how
 * many existed in the course of the process. Windows have the same length in time, so that all that
 * a program makes at its start is in the first ones. Then the process need not free anything. */
static void set_trend(const struct object_site *site, uint64_t window_ns,
		      struct report_object_counts *ret)
{
	struct live_windows windows = { .count = LEDGER_WINDOWS - 1, .allocs = site->live };
	struct process_windows process = { .window_allocs = UINT32_MAX };
	struct accumulation found;
	uint64_t sum = 0;

	if (site->live < ACCUMULATION_ALLOCS_MIN || window_ns < WINDOW_NS_MIN)
		return;
	for (size_t i = 0; i < LEDGER_WINDOWS; i++) {
		process.low_blocks[i] = sum;
		windows.window[i] = (struct live_window){
			.low_blocks = sum, .high_blocks = sum + site->made[i], .allocs = sum,
			.time_ns = site->made[i] ? i * window_ns + 1 : 0 };
		sum += site->made[i];
	}
	found = accumulation_judge(&windows, &process);
	ret->trend = found.trend;
	ret->per_second = found.kept_per_second;
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

static void sum_up(struct builder *b, const struct site_list *sites, uint64_t window_ns)
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
		if (!group || !group->objects)
			continue;
		add_site(site, group->objects);
		set_trend(site, window_ns, group->objects);
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
	uint64_t window_ns = build_now(b) / LEDGER_WINDOWS + 1;

	walk_sites(&sites);
	count_live(&sites, window_ns);
	sum_up(b, &sites, window_ns);
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

#define PRIMARY "object/primary-context"

static bool is_context(const char *kind)
{
	return strstr(kind, "context") != NULL;
}

/* Returns how often the application itself retained the primary context OBJECT without a release,
 * and stores in *RET_STACK where, the last time. */
static uint64_t retains_of(const struct report_leak *object, const struct report_stack **ret_stack)
{
	const struct report_history *history = object->history;
	uint64_t left = object->references;

	*ret_stack = object->site->stack;
	for (size_t i = 0; history && i < history->count; i++) {
		const struct report_reference *event = &history->events[i];

		if (event->op == REPORT_RELEASE || event->partner >= 0)
			continue;
		if (event->stack->count && event->stack->frames[0].role == FRAME_RUNTIME)
			left -= left != 0;
		else
			*ret_stack = event->stack;
	}
	return left;
}

/* Returns true if OBJECT of the program alone is a reason for the line about objects. Each CUDA
 * program has a context, and many leave it to the end of the process. */
static bool has_line(const struct report_leak *object)
{
	const struct report_stack *stack;

	return !is_context(object->site->kind) ||
	       (strcmp(object->site->kind, PRIMARY) == 0 && retains_of(object, &stack) > 1);
}

/* The objects of one kind that the application should have destroyed. */
struct left {
	uint64_t count, here, growing; /* in all; at the place of the largest group; accumulating */
	double per_second;
	const struct report_leak *most; /* the largest group; NULL: none was left */
	bool has_line, many;
};

/* Objects of one place. Libraries keep fewer, for example a stream, and all code that they need. */
#define MANY (strstr(CODES, kind) ? 16 : 3)
#define CODES "object/module object/library object/cl-program object/cl-kernel"

/* Returns what is left of KIND; nothing if some of it accumulates, unless GROWING requests that. */
static struct left left_of(const struct report_process *process, const char *kind, bool growing)
{
	struct left ret = { 0 };
	char place[FORMAT_PLACE_MAX];

	EACH_ITEM(process->objects, process->object_count, object) {
		bool grows = object->objects->trend == TREND_ACCUMULATING;

		if (object->site->kind != kind || !is_of_program(object))
			continue;
		if (!ret.most)
			format_place((ret.most = object)->site->stack, place);
		ret.count = add_bounded(ret.count, object->blocks);
		ret.here += strcmp(PLACE(object->site->stack), place) ? 0 : object->blocks;
		ret.growing += grows ? object->blocks : 0;
		ret.per_second += grows ? object->objects->per_second : 0;
		ret.has_line |= has_line(object) || ret.here > 1;
		ret.many |= ret.here >= MANY || (is_context(kind) && ret.has_line);
	}
	return growing == (ret.growing != 0) ? ret : (struct left){ 0 };
}

/* Prints "20 OpenCL events at main (/abs/a.c:3)", or for several places ", most at". */
static void print_left(FILE *out, const struct left *left)
{
	const struct report_stack *stack = left->most->site->stack;
	const char *kind = left->most->site->kind;
	uint64_t retains = strcmp(kind, PRIMARY) == 0 ? retains_of(left->most, &stack) : 0;

	if (retains > 1)
		fprintf(out, "%s retains of a primary context", NUMBER(retains));
	else
		eprintf(out, "%s", OBJECTS(left->count, kind));
	if (left->growing)
		fprintf(out, ", %s of them accumulating", NUMBER(left->growing));
	if (left->per_second > 0)
		describe_rate(out, left->per_second);
	fputs(left->here < left->count - left->count / 10 ? ", most at " : " at ", out);
	describe_place(out, stack, false);
}

void describe_objects(FILE *out, const struct report_process *process, bool growing,
		      const char *before)
{
	const char *what = process->ended == REPORT_RUNNING ? "not destroyed so far: "
							    : "never destroyed: ";

	for (size_t i = 0; i < process->object_kind_count; i++) {
		struct left left = left_of(process, process->object_kinds[i].kind, growing);

		if (!left.has_line)
			continue;
		fprintf(out, "%s%s", before, what);
		print_left(out, &left);
		before = "; ";
		what = "";
	}
}

bool is_much_left(const struct report_process *process)
{
	for (size_t i = 0; i < process->refused_free_count; i++)
		if (process->refused_frees[i].after_shutdown)
			return true;
	for (size_t i = 0; i < process->object_kind_count && !process->attached; i++)
		if (left_of(process, process->object_kinds[i].kind, false).many)
			return true;
	return false;
}

void describe_left(FILE *out, const struct report_process *process, const char *before, bool whole)
{
	if (describe_late_frees(out, before, process, whole))
		before = "; ";
	describe_objects(out, process, false, before);
}

static void print_totals(FILE *out, const struct report_process *process)
{
	fputs("\nObjects that are not memory:\n", out);
	EACH_ITEM(process->object_kinds, process->object_kind_count, kind) {
		eprintf(out, "  %s: %s created, %s destroyed", kind_words(kind->kind),
			NUMBER(kind->counts.created), NUMBER(kind->counts.destroyed));
		if (kind->counts.with_context)
			fprintf(out, ", %s ended with their context",
				NUMBER(kind->counts.with_context));
		fprintf(out, ", %s left\n", NUMBER(kind->live));
	}
}

static void print_details(FILE *out, const struct subject_view *view)
{
	const struct report_process *process = view->process;

	if (!view->verbose)
		return;
	for (size_t i = 0; i < process->object_count && i < OBJECTS_MAX; i++) {
		const struct report_leak *object = &process->objects[i];

		fputs("\nNot released: ", out);
		print_escaped(out, OBJECTS(object->blocks, object->site->kind));
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
	EACH_ITEM(process->driver_costs, process->driver_cost_count, cost) {
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
		{ "trend", json_text(suballocation_trend_word(object->objects->trend)) },
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

	json_set(object, "object_kinds", JSON_LIST_IF_ANY(process->object_kinds,
							  process->object_kind_count, kind_json));
}

const struct subject subject_objects = {
	.build = build, .only_if = PART(object_count), .has_keys_always = true,
	.details = print_details, .json = add_json, .figures = &figures,
	LIST("objects", objects, object_count, .of_view = object_json),
};
