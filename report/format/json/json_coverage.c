/* SPDX-License-Identifier: MIT
 *
 * Writes the ledger's observations about coverage, with reasons for modules that bypass gpuleak.
 * Includes empty lists.
 */
#include "report/format/json/json_helpers.h"
#include "report/format/json/json_sections.h"
#include "report/model/model_coverage.h"

static json_t *modules_json(const struct report_fact *fact)
{
	return JSON_LIST(fact->modules, fact->module_count, json_text_at);
}

static json_t *routes_json(const struct report_coverage *coverage)
{
	json_t *ret = json_array();

	for (size_t at = 0; at < coverage_route_count; at++) {
		const char *kind = coverage_routes[at].kind;
		const struct report_fact *fact;

		for (size_t i = 0; ret && (fact = coverage_fact(coverage, kind, i)); i++)
			json_append(&ret, JSON_OBJECT(
				{ "api", json_text(fact->subject) },
				{ "route", json_text(fact->kind) },
				{ "modules", modules_json(fact) }));
	}
	return ret;
}

/* Returns the functions that were looked up. asked_for: the program looked the function up by name,
 * not only as one of all functions. */
static json_t *functions_json(const struct report_coverage *coverage, const char *kind)
{
	const struct report_fact *fact;
	json_t *ret = json_array();

	for (size_t i = 0; ret && (fact = coverage_fact(coverage, kind, i)); i++)
		json_append(&ret, JSON_OBJECT(
			{ "symbol", json_text(fact->subject) },
			{ "reason", JSON_IF(fact->detail, json_text(fact->detail)) },
			{ "asked_for", json_boolean(fact->asked_for) },
			{ "modules", modules_json(fact) }));
	return ret;
}

static json_t *reach_json(const struct report_coverage *coverage)
{
	json_t *ret = json_array();

	for (size_t i = 0; ret && i < coverage->count; i++) {
		const struct report_fact *fact = &coverage->facts[i];
		const struct coverage_reach *reach = coverage_reach(fact->kind);

		for (size_t j = 0; reach && ret && j < fact->module_count; j++)
			json_append(&ret, JSON_OBJECT(
				{ "what", json_text(fact->kind) },
				{ "subject", json_text(fact->subject) },
				{ "module", json_text(fact->modules[j]) },
				{ "reason", json_text(reach->reason) }));
	}
	return ret;
}

json_t *json_coverage(const struct report_coverage *coverage)
{
	return JSON_OBJECT(
		{ "routes", routes_json(coverage) },
		{ "untracked", functions_json(coverage, "untracked") },
		{ "unclassed", functions_json(coverage, "unclassed") },
		{ "out_of_reach", reach_json(coverage) });
}
