/* SPDX-License-Identifier: MIT
 *
 * Coverage: the routes, which are the ways by which modules reach a driver (linking, dlsym,
 * cuGetProcAddress ...), and what is out of gpuleak's reach. The single line has only the last
 * component of file names; the section for -v has whole paths. JSON includes empty lists.
 */
#include "report/subjects/subject.h"

#include <string.h>

#include "report/describe/json_helpers.h"
#include "report/model/model.h"
#include "report/model/model_coverage.h"
#include "report/subjects/subject_words.h"
#include "report/util/escape.h"
#include "report/util/number.h"

#define MODULES_MAX 2 /* modules per route in the single line */
#define NAMES_MAX 6   /* ignored functions per reason */

static const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

static const struct report_observation *route_of(const struct report_coverage *coverage,
						 const char *route, const char *api)
{
	for (size_t i = 0; i < coverage->count; i++) {
		const struct report_observation *seen = &coverage->observations[i];

		if (strcmp(seen->kind, route) == 0 && strcmp(seen->subject, api) == 0)
			return seen;
	}
	return NULL;
}

static bool is_route(const char *kind)
{
	for (size_t i = 0; i < coverage_route_count; i++)
		if (strcmp(kind, coverage_routes[i].kind) == 0)
			return true;
	return false;
}

/* Returns the API that follows BEFORE in alphabetical order among those that have a route. BEFORE
 * NULL: returns the first API. Returns NULL after the last. */
static const char *next_api(const struct report_coverage *coverage, const char *before)
{
	const char *next = NULL;

	for (size_t i = 0; i < coverage->count; i++) {
		const struct report_observation *seen = &coverage->observations[i];

		if (is_route(seen->kind) && (!before || strcmp(seen->subject, before) > 0) &&
		    (!next || strcmp(seen->subject, next) < 0))
			next = seen->subject;
	}
	return next;
}

static void print_api(FILE *out, const char *before, const char *api)
{
	fputs(before, out);
	print_escaped(out, api);
	fputs(" intercepted via ", out);
}

/* Prints the modules that used the route. Prints nothing if only the program itself used it. */
static void print_modules(FILE *out, const struct report_process *process,
			  const struct report_observation *seen)
{
	size_t count = seen->module_count;

	if (count == 0 ||
	    (count == 1 && process->exe && strcmp(seen->modules[0], process->exe) == 0))
		return;
	for (size_t i = 0; i < count && i < MODULES_MAX; i++) {
		fputs(i ? ", " : " (", out);
		print_escaped(out, base_of(seen->modules[i]));
	}
	if (count > MODULES_MAX)
		fprintf(out, " and %zu more", count - MODULES_MAX);
	fputc(')', out);
}

static size_t print_routes(FILE *out, const struct report_process *process, const char *api,
			   size_t before)
{
	size_t routes = 0, last = 0;

	for (size_t i = 0; i < coverage_route_count; i++)
		if (route_of(&process->coverage, coverage_routes[i].kind, api))
			last = i;
	for (size_t i = 0; i < coverage_route_count; i++) {
		const struct report_observation *seen =
			route_of(&process->coverage, coverage_routes[i].kind, api);

		if (!seen)
			continue;
		if (routes++ == 0)
			print_api(out, before ? "; " : "", api);
		else
			fputs(i == last ? " and " : ", ", out);
		fputs(coverage_routes[i].name, out);
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
	for (size_t i = 0; i < coverage->count; i++) {
		const struct report_observation *seen = &coverage->observations[i];
		const struct coverage_reach *reach = coverage_reach(seen->kind);

		for (size_t j = 0; reach && j < seen->module_count; j++) {
			fputs(gaps++ ? ", " : "; not seen: ", out);
			print_escaped(out, base_of(seen->modules[j]));
			fprintf(out, " (%s)", reach->name);
		}
	}
	fputc('\n', out);
}

static void print_list(FILE *out, const struct report_observation *seen)
{
	for (size_t i = 0; i < seen->module_count; i++) {
		fputs(i ? ", " : "", out);
		print_escaped(out, seen->modules[i]);
	}
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
		fprintf(out, "  %s ", what);
		print_escaped(out, seen->subject);
		if (seen->module_count) {
			fputs(" by ", out);
			print_list(out, seen);
		}
		if (seen->detail) {
			fputs(": ", out);
			print_escaped(out, seen->detail);
		}
		fputc('\n', out);
	}
}

static void print_all_routes(FILE *out, const struct report_coverage *coverage)
{
	const char *api = NULL;

	while ((api = next_api(coverage, api)))
		for (size_t i = 0; i < coverage_route_count; i++) {
			const struct report_observation *seen =
				route_of(coverage, coverage_routes[i].kind, api);

			if (!seen)
				continue;
			print_api(out, "  ", api);
			fputs(coverage_routes[i].name, out);
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
		if (count < NAMES_MAX) {
			fputs(count ? ", " : "  looked up, ignored: ", out);
			print_escaped(out, one->subject);
		}
		count++;
	}
	if (count > NAMES_MAX)
		fprintf(out, " and %zu more", count - NAMES_MAX);
	fputs(": ", out);
	print_escaped(out, own->detail);
	fputc('\n', out);
}

static void print_reaches(FILE *out, const struct report_coverage *coverage)
{
	for (size_t i = 0; i < coverage->count; i++) {
		const struct report_observation *seen = &coverage->observations[i];
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

	fputs("Coverage of ", out);
	print_escaped(out, process->program);
	fprintf(out, " (pid %d):\n", process->pid);
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

	for (size_t at = 0; at < coverage_route_count; at++) {
		const char *kind = coverage_routes[at].kind;
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

	for (size_t i = 0; i < coverage->count; i++) {
		const struct report_observation *seen = &coverage->observations[i];
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

const struct subject subject_coverage = { .details = print_details, .json = add_json };
