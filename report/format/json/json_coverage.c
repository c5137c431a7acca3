/* SPDX-License-Identifier: MIT
 *
 * Writes the ledger's observations about coverage, with reasons for modules that bypass gpuleak.
 * Includes empty lists.
 */
#include "report/format/json/json_helpers.h"
#include "report/format/json/json_sections.h"
#include "report/model/model_coverage.h"

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

		for (size_t i = 0; ret && (seen = coverage_observation(coverage, kind, i)); i++)
			json_append(&ret, JSON_OBJECT(
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

	for (size_t i = 0; ret && (seen = coverage_observation(coverage, kind, i)); i++)
		json_append(&ret, JSON_OBJECT(
			{ "symbol", json_text(seen->subject) },
			{ "reason", JSON_IF(seen->detail, json_text(seen->detail)) },
			{ "asked_for", json_boolean(seen->asked_for) },
			{ "modules", modules_json(seen) }));
	return ret;
}

static json_t *reach_json(const struct report_coverage *coverage)
{
	json_t *ret = json_array();

	for (size_t i = 0; ret && i < coverage->count; i++) {
		const struct report_observation *seen = &coverage->observations[i];
		const struct coverage_reach *reach = coverage_reach(seen->kind);

		for (size_t j = 0; reach && ret && j < seen->module_count; j++)
			json_append(&ret, JSON_OBJECT(
				{ "what", json_text(seen->kind) },
				{ "subject", json_text(seen->subject) },
				{ "module", json_text(seen->modules[j]) },
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
