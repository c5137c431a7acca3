/* SPDX-License-Identifier: MIT
 *
 * Coverage: the routes, which are the ways by which modules reach a driver (linking, dlsym,
 * cuGetProcAddress ...), and what is out of gpuleak's reach. Merges the observations of a ledger:
 * one entry per kind and subject. The single line has only the last component of file names; the
 * section for -v has whole paths. JSON includes empty lists. Must not decide the gate.
 */
#include "report/subjects/common.h"

#include "report/util/path.h"

/* A module that looks up at least this many functions is assumed to look up all of them. The CUDA
 * runtime does so (about 440 at its first call). A lookup then does not prove a use. */
#define WHOLESALE 150
#define REFERRED "referred-"
#define JOINED_MAX 8 /* maximum number of names in one sentence */

/* How calls reach gpuleak. Reports have this order. */
static const struct {
	const char *kind, *name;
} route_words[] = {
	{ "cuGetProcAddress", "cuGetProcAddress" },
	{ "dlsym", "dlsym" },
	{ "extension", "extension lookups" },
	{ "layer", "a layer of the loader" },
	{ "attached", "the attachment" },
	{ "linked", "linked calls" },
};
#define ROUTE_COUNT (sizeof(route_words) / sizeof(route_words[0]))

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

struct raws {
	struct raw *list;
	size_t count;
	/* modules that looked up so many functions that one lookup does not prove a use */
	const char **wholesale;
	size_t wholesale_count;
};

static bool is_wholesale(const struct raws *raws, const char *module)
{
	for (size_t i = 0; i < raws->wholesale_count; i++)
		if (module && strcmp(raws->wholesale[i], module) == 0)
			return true;
	return false;
}

/* Reads all records of coverage, and sorts them. The tables of the driver that CUDA runtimes use
 * are known, so lookups of these by a runtime have a kind of their own. */
static void read_all(struct builder *b, struct raws *ret)
{
	struct ledger_walk walk = { 0 };
	const struct ledger_observation *record;

	for (size_t i = 0; i < LEDGER_OBSERVATIONS_MAX &&
			   (record = ledger_next_observation(b->view, &walk)); i++) {
		struct raw raw = read_raw(b, record);

		if (build_is_of_program(raw.kind))
			continue;
		*ARENA_ADD(b->arena, ret->list, ret->count) = raw;
		if (raw.module && raw.count >= WHOLESALE &&
		    strcmp(raw.kind, "cuGetProcAddress") == 0)
			*ARENA_ADD(b->arena, ret->wholesale, ret->wholesale_count) = raw.module;
	}
	for (size_t i = 0; i < ret->count; i++)
		if (strcmp(ret->list[i].kind, "export-table") == 0 &&
		    is_wholesale(ret, ret->list[i].module))
			ret->list[i].kind = "known-export-table";
	SORT(ret->list, ret->count, compare_raw);
}

static bool same_subject(const struct raw *a, const struct raw *b)
{
	return strcmp(a->kind, b->kind) == 0 && strcmp(a->subject, b->subject) == 0;
}

/* Returns record *AT merged with the following ones of the same kind and subject. Moves *AT behind
 * them. */
static struct report_observation merge(struct builder *b, const struct raws *raws, size_t *at)
{
	const struct raw *first = &raws->list[*at];
	struct report_observation ret = { .kind = first->kind, .subject = first->subject,
					  .detail = first->detail };

	for (; *at < raws->count && same_subject(first, &raws->list[*at]); ++*at) {
		const struct raw *one = &raws->list[*at];

		ret.count = add_bounded(ret.count, one->count);
		ret.asked_for |= !one->referred && !is_wholesale(raws, one->module);
		if (one->module && (ret.module_count == 0 ||
				    strcmp(ret.modules[ret.module_count - 1], one->module) != 0))
			*ARENA_ADD(b->arena, ret.modules, ret.module_count) = one->module;
	}
	return ret;
}

/* ---- sentences ---- */

static void add_gap(struct builder *b, const char *text)
{
	struct report_coverage *coverage = &b->process->coverage;

	*ARENA_ADD(b->arena, coverage->gaps, coverage->gap_count) = text;
}

static const char *join(struct builder *b, const char *before, const char *name, size_t number)
{
	if (number > JOINED_MAX)
		return before;
	if (number == JOINED_MAX)
		return arena_printf(b->arena, "%s ...", before);
	return arena_printf(b->arena, "%s%s%s", before, number ? ", " : "", name);
}

static void add_reach_gap(struct builder *b, const struct report_observation *seen)
{
	const struct coverage_reach *reach = coverage_reach(seen->kind);

	for (size_t i = 0; reach && i < seen->module_count; i++)
		add_gap(b, arena_printf(b->arena, "%s calls of %s are not seen: %s",
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
			      size_t first)
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
	add_gap(b, arena_printf(b->arena, "looked up, but not tracked: %s: %s", names, reason));
}

static void add_unclassed_gap(struct builder *b, const struct report_coverage *coverage)
{
	const struct report_observation *seen;
	const char *names = "";
	size_t number = 0;

	while ((seen = coverage_observation(coverage, "unclassed", number)))
		names = join(b, names, seen->subject, number++);
	if (number)
		add_gap(b, arena_printf(b->arena, "%s: unknown to this version of gpuleak, perhaps "
					"because the driver is newer; memory that %s allocates or "
					"frees is not in this report", names,
					number == 1 ? "this function" : "one of these functions"));
}

static void list_gaps(struct builder *b, struct report_coverage *coverage)
{
	for (size_t i = 0; i < coverage->count; i++)
		add_reach_gap(b, &coverage->observations[i]);
	for (size_t i = 0; i < coverage->count; i++)
		if (is_untracked(&coverage->observations[i]))
			add_untracked_gap(b, coverage, i);
	add_unclassed_gap(b, coverage);
	if (coverage_observation(coverage, "lost", 0))
		add_gap(b, "the ledger had no room to record all ways by which the program "
			   "reaches a driver");
}

static void build(struct builder *b)
{
	struct report_coverage *coverage = &b->process->coverage;
	struct raws raws = { 0 };

	read_all(b, &raws);
	for (size_t at = 0; at < raws.count;)
		*ARENA_ADD(b->arena, coverage->observations, coverage->count) =
			merge(b, &raws, &at);
	list_gaps(b, coverage);
}

/* ---- text ---- */

#define MODULES_MAX 2 /* modules per route in the single line */
#define NAMES_MAX 6   /* ignored functions per reason */

static const struct report_observation *route_of(const struct report_coverage *coverage,
						 const char *route, const char *api)
{
	EACH_ITEM(coverage->observations, coverage->count, seen) {
		if (strcmp(seen->kind, route) == 0 && strcmp(seen->subject, api) == 0)
			return seen;
	}
	return NULL;
}

static bool is_route(const char *kind)
{
	for (size_t i = 0; i < ROUTE_COUNT; i++)
		if (strcmp(kind, route_words[i].kind) == 0)
			return true;
	return false;
}

/* Returns the API that follows BEFORE in alphabetical order among those that have a route. BEFORE
 * NULL: returns the first API. Returns NULL after the last. */
static const char *next_api(const struct report_coverage *coverage, const char *before)
{
	const char *next = NULL;

	EACH_ITEM(coverage->observations, coverage->count, seen) {
		if (is_route(seen->kind) && (!before || strcmp(seen->subject, before) > 0) &&
		    (!next || strcmp(seen->subject, next) < 0))
			next = seen->subject;
	}
	return next;
}

static void print_api(FILE *out, const char *before, const char *api)
{
	eprintf(out, "%s%s intercepted via ", before, api);
}

/* Prints the modules that used the route. Prints nothing if only the program itself used it. */
static void print_modules(FILE *out, const struct report_process *process,
			  const struct report_observation *seen)
{
	size_t count = seen->module_count;

	if (count == 0 ||
	    (count == 1 && process->exe && strcmp(seen->modules[0], process->exe) == 0))
		return;
	for (size_t i = 0; i < count && i < MODULES_MAX; i++)
		eprintf(out, "%s%s", i ? ", " : " (", path_last(seen->modules[i]));
	if (count > MODULES_MAX)
		fprintf(out, " and %zu more", count - MODULES_MAX);
	fputc(')', out);
}

static size_t print_routes(FILE *out, const struct report_process *process, const char *api,
			   size_t before)
{
	size_t routes = 0, last = 0;

	for (size_t i = 0; i < ROUTE_COUNT; i++)
		if (route_of(&process->coverage, route_words[i].kind, api))
			last = i;
	for (size_t i = 0; i < ROUTE_COUNT; i++) {
		const struct report_observation *seen =
			route_of(&process->coverage, route_words[i].kind, api);

		if (!seen)
			continue;
		if (routes++ == 0)
			print_api(out, before ? "; " : "", api);
		else
			fputs(i == last ? " and " : ", ", out);
		fputs(route_words[i].name, out);
		print_modules(out, process, seen);
	}
	return routes;
}

void describe_coverage(FILE *out, const struct report_process *process)
{
	const struct report_coverage *coverage = &process->coverage;
	const char *api = NULL;
	size_t routes = 0, gaps = 0;

	if (coverage->count == 0)
		return;
	fputs("coverage: ", out);
	while ((api = next_api(coverage, api)))
		routes += print_routes(out, process, api, routes);
	if (routes == 0)
		fputs("it is unknown how the program reaches a driver", out);
	EACH_ITEM(coverage->observations, coverage->count, seen) {
		const struct coverage_reach *reach = coverage_reach(seen->kind);

		for (size_t j = 0; reach && j < seen->module_count; j++)
			eprintf(out, "%s%s (%s)", gaps++ ? ", " : "; not seen: ",
				path_last(seen->modules[j]), reach->name);
	}
	fputc('\n', out);
}

static void print_list(FILE *out, const struct report_observation *seen)
{
	for (size_t i = 0; i < seen->module_count; i++)
		eprintf(out, "%s%s", i ? ", " : "", seen->modules[i]);
}

/* Prints " WHAT SUBJECT by MODULES: REASON" for each observation of KIND. ASKED_FOR is 0, 1 or, for
 * all observations, -1: see report_observation.asked_for. */
static void print_kind(FILE *out, const struct report_coverage *coverage, const char *kind,
		       const char *what, int asked_for)
{
	const struct report_observation *seen;

	for (size_t i = 0; (seen = coverage_observation(coverage, kind, i)); i++) {
		if (asked_for >= 0 && seen->asked_for != asked_for)
			continue;
		eprintf(out, "  %s %s", what, seen->subject);
		if (seen->module_count) {
			fputs(" by ", out);
			print_list(out, seen);
		}
		if (seen->detail)
			eprintf(out, ": %s", seen->detail);
		fputc('\n', out);
	}
}

static void print_all_routes(FILE *out, const struct report_coverage *coverage)
{
	const char *api = NULL;

	while ((api = next_api(coverage, api)))
		for (size_t i = 0; i < ROUTE_COUNT; i++) {
			const struct report_observation *seen =
				route_of(coverage, route_words[i].kind, api);

			if (!seen)
				continue;
			print_api(out, "  ", api);
			fputs(route_words[i].name, out);
			if (strcmp(seen->kind, "linked") != 0)
				fprintf(out, ", %s times", NUMBER(seen->count));
			if (seen->module_count) {
				fputs(": ", out);
				print_list(out, seen);
			}
			fputc('\n', out);
		}
}

/* Prints the names of all functions that are ignored for the same reason, if FIRST is the index of
 * the first of these. */
static void print_ignored(FILE *out, const struct report_coverage *coverage, size_t first)
{
	const struct report_observation *own = coverage_observation(coverage, "ignored", first);
	const struct report_observation *one;
	size_t count = 0;

	for (size_t i = 0; (one = coverage_observation(coverage, "ignored", i)); i++) {
		if (!one->detail || strcmp(one->detail, own->detail) != 0)
			continue;
		if (i < first)
			return;
		if (count < NAMES_MAX)
			eprintf(out, "%s%s", count ? ", " : "  looked up, ignored: ", one->subject);
		count++;
	}
	if (count > NAMES_MAX)
		fprintf(out, " and %zu more", count - NAMES_MAX);
	eprintf(out, ": %s\n", own->detail);
}

static void print_reaches(FILE *out, const struct report_coverage *coverage)
{
	EACH_ITEM(coverage->observations, coverage->count, seen) {
		const struct coverage_reach *reach = coverage_reach(seen->kind);

		if (!reach)
			continue;
		fprintf(out, "  calls not seen, %s: ", reach->name);
		print_list(out, seen);
		fprintf(out, " (%s): %s\n", seen->subject, reach->reason);
	}
}

void describe_all_coverage(FILE *out, const struct report_process *process)
{
	const struct report_coverage *coverage = &process->coverage;
	const struct report_observation *seen;

	eprintf(out, "Coverage of %s (pid %d):\n", process->program, process->pid);
	if (coverage->count == 0)
		fputs("  the ledger does not record how the program reaches a driver\n", out);
	print_all_routes(out, coverage);
	print_reaches(out, coverage);
	print_kind(out, coverage, "unclassed", "unknown to this version of gpuleak:", -1);
	print_kind(out, coverage, "untracked", "looked up, not tracked:", 1);
	print_kind(out, coverage, "untracked",
		   "looked up with all other functions, or only linked, not tracked:", 0);
	for (size_t i = 0; (seen = coverage_observation(coverage, "ignored", i)); i++)
		if (seen->detail)
			print_ignored(out, coverage, i);
	print_kind(out, coverage, "known-export-table",
		   "internal table of the driver, used by the CUDA runtime:", -1);
	print_kind(out, coverage, "deepbind-covered",
		   "opened without the requested RTLD_DEEPBIND:", -1);
	print_kind(out, coverage, "deepbind-open", "opened with RTLD_DEEPBIND:", -1);
	print_kind(out, coverage, "namespace-open", "opened in another namespace:", -1);
}

static json_t *modules_json(const struct report_observation *seen)
{
	return JSON_LIST(seen->modules, seen->module_count, json_text_at);
}

static json_t *routes_json(const struct report_coverage *coverage)
{
	json_t *ret = json_array();

	for (size_t at = 0; at < ROUTE_COUNT; at++) {
		const char *kind = route_words[at].kind;
		const struct report_observation *seen;

		for (size_t i = 0; (seen = coverage_observation(coverage, kind, i)); i++)
			json_array_append_new(ret, JSON_OBJECT(
				{ "api", json_text(seen->subject) },
				{ "route", json_text(seen->kind) },
				{ "modules", modules_json(seen) }));
	}
	return ret;
}

/* Returns the functions that were looked up. For asked_for see report_observation.asked_for. */
static json_t *functions_json(const struct report_coverage *coverage, const char *kind)
{
	const struct report_observation *seen;
	json_t *ret = json_array();

	for (size_t i = 0; (seen = coverage_observation(coverage, kind, i)); i++)
		json_array_append_new(ret, JSON_OBJECT(
			{ "symbol", json_text(seen->subject) },
			{ "reason", JSON_IF(seen->detail, json_text(seen->detail)) },
			{ "asked_for", json_boolean(seen->asked_for) },
			{ "modules", modules_json(seen) }));
	return ret;
}

static json_t *reach_json(const struct report_coverage *coverage)
{
	json_t *ret = json_array();

	EACH_ITEM(coverage->observations, coverage->count, seen) {
		const struct coverage_reach *reach = coverage_reach(seen->kind);

		for (size_t j = 0; reach && j < seen->module_count; j++)
			json_array_append_new(ret, JSON_OBJECT(
				{ "what", json_text(seen->kind) },
				{ "subject", json_text(seen->subject) },
				{ "module", json_text(seen->modules[j]) },
				{ "reason", json_text(reach->reason) }));
	}
	return ret;
}

static void print_details(FILE *out, const struct subject_view *view)
{
	if (view->is_wrong)
		describe_coverage(out, view->process);
}

static void add_json(json_t *object, const struct subject_view *view)
{
	const struct report_coverage *coverage = &view->process->coverage;

	json_set(object, "coverage", JSON_OBJECT(
		{ "routes", routes_json(coverage) },
		{ "untracked", functions_json(coverage, "untracked") },
		{ "unclassed", functions_json(coverage, "unclassed") },
		{ "out_of_reach", reach_json(coverage) }));
}

const struct subject subject_coverage = {
	.build = build, .chunks = CHUNK_BIT(OBSERVATIONS), .details = print_details,
	.json = add_json,
};
