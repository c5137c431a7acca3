/* SPDX-License-Identifier: MIT
 *
 * Writes the ledger's observations about coverage, with reasons for modules that bypass gpuleak.
 * Includes empty lists.
 */
#include "report/format/json/json_coverage.h"

#include <string.h>

#include "report/model/model_coverage.h"
#include "report/format/json/json_helpers.h"

static json_t *modules_json(const struct report_fact *fact)
{
	json_t *ret = json_array();

	for (size_t i = 0; i < fact->module_count && ret; i++)
		json_append(&ret, json_text(fact->modules[i]));
	return ret;
}

static json_t *routes_json(const struct report_coverage *coverage)
{
	json_t *ret = json_array();

	for (size_t at = 0; at < coverage_route_count; at++) {
		const char *kind = coverage_routes[at].kind;
		const struct report_fact *fact;

		for (size_t i = 0; ret && (fact = coverage_fact(coverage, kind, i)); i++) {
			json_t *item = json_object();

			json_set(&item, "api", json_text(fact->subject));
			json_set(&item, "route", json_text(fact->kind));
			json_set(&item, "modules", modules_json(fact));
			json_append(&ret, item);
		}
	}
	return ret;
}

/* Returns the functions that were looked up. asked_for: the program looked the function up by name,
 * not only as one of all functions. */
static json_t *functions_json(const struct report_coverage *coverage, const char *kind)
{
	const struct report_fact *fact;
	json_t *ret = json_array();

	for (size_t i = 0; ret && (fact = coverage_fact(coverage, kind, i)); i++) {
		json_t *item = json_object();

		json_set(&item, "symbol", json_text(fact->subject));
		if (fact->detail)
			json_set(&item, "reason", json_text(fact->detail));
		json_set(&item, "asked_for", json_boolean(fact->asked_for));
		json_set(&item, "modules", modules_json(fact));
		json_append(&ret, item);
	}
	return ret;
}

static json_t *reach_json(const struct report_coverage *coverage)
{
	json_t *ret = json_array();

	for (size_t i = 0; ret && i < coverage->count; i++) {
		const struct report_fact *fact = &coverage->facts[i];
		const struct coverage_reach *reach = coverage_reach(fact->kind);

		for (size_t j = 0; reach && ret && j < fact->module_count; j++) {
			json_t *item = json_object();

			json_set(&item, "what", json_text(fact->kind));
			json_set(&item, "subject", json_text(fact->subject));
			json_set(&item, "module", json_text(fact->modules[j]));
			json_set(&item, "reason", json_text(reach->reason));
			json_append(&ret, item);
		}
	}
	return ret;
}

json_t *json_coverage(const struct report_coverage *coverage)
{
	json_t *ret = json_object();

	json_set(&ret, "routes", routes_json(coverage));
	json_set(&ret, "untracked", functions_json(coverage, "untracked"));
	json_set(&ret, "unclassed", functions_json(coverage, "unclassed"));
	json_set(&ret, "out_of_reach", reach_json(coverage));
	return ret;
}
