/* SPDX-License-Identifier: MIT
 *
 * Writes all stored steps and all suspects.
 */
#include "report/format/json/json_growth.h"

#include "report/model/growth_rule.h"
#include "report/format/json/json_helpers.h"

static json_t *step_json(const struct report_step *step)
{
	json_t *ret = json_object();

	json_set(&ret, "number", json_integer(step->number));
	json_set(&ret, "label", json_text(step->label));
	json_set(&ret, "time_ns", json_number(step->time_ns));
	json_set(&ret, "live_bytes", json_number(step->live_bytes));
	json_set(&ret, "live_blocks", json_number(step->live_blocks));
	return ret;
}

static json_t *suspect_json(const struct report_suspect *suspect)
{
	json_t *ret = json_object(), *series = json_array();

	for (size_t i = 0; i < suspect->series.count && series; i++)
		json_append(&series, json_number(suspect->series.values[i]));
	json_set(&ret, "api", json_text(suspect->api));
	json_set(&ret, "kind", json_text(suspect->kind));
	json_set(&ret, "device", json_integer(suspect->device));
	json_set(&ret, "bytes", json_number(suspect->bytes));
	json_set(&ret, "blocks", json_number(suspect->blocks));
	json_set(&ret, "bytes_per_step", json_number(suspect->bytes_per_step));
	json_set(&ret, "blocks_per_step", json_number(suspect->blocks_per_step));
	json_set(&ret, "bytes_per_hour", json_number(suspect->bytes_per_hour));
	json_set(&ret, "grew_in_steps", json_integer(suspect->intervals));
	json_set(&ret, "bytes_at_steps", series);
	json_set(&ret, "stack", json_stack(suspect->stack));
	return ret;
}

json_t *json_growth(const struct report_growth *growth)
{
	json_t *ret = json_object(), *steps = json_array(), *suspects = json_array();

	for (size_t i = 0; i < growth->kept_count && steps; i++)
		json_append(&steps, step_json(&growth->steps[i]));
	for (size_t i = 0; i < growth->suspect_count && suspects; i++)
		json_append(&suspects, suspect_json(&growth->suspects[i]));
	json_set(&ret, "step_count", json_number(growth->step_count));
	json_set(&ret, "suspects", suspects);
	json_set(&ret, "suppressed", json_number(growth->suppressed));
	json_set(&ret, "not_judged", json_number(growth->lost));
	json_set(&ret, "steps", steps);
	return ret;
}
