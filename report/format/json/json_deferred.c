/* SPDX-License-Identifier: MIT
 *
 * Writes all values of deferred frees, also if nothing is wrong.
 */
#include "report/format/json/json_helpers.h"
#include "report/format/json/json_sections.h"
#include "report/model/model.h"

static json_t *block_json(const struct report_deferred *deferred)
{
	return JSON_OBJECT(
		{ "kind", json_text(deferred->kind) },
		{ "bytes", json_number(deferred->bytes) },
		{ "address", JSON_IF(deferred->address, json_address(deferred->address)) },
		{ "released", json_event(&deferred->released) },
		{ "allocated", json_allocation(&deferred->allocated) });
}

static json_t *holders_json(const struct report_holder *first)
{
	json_t *ret = json_array();

	for (const struct report_holder *holder = first; holder; holder = holder->next)
		json_append(&ret, JSON_OBJECT(
			{ "what", json_text(holder->what) },
			{ "kind", json_text(holder->kind) },
			{ "address", json_address(holder->address) },
			{ "allocated", json_allocation(&holder->allocated) }));
	return ret;
}

static json_t *group_json(const void *group)
{
	static const char *const reasons[] = {
		[REPORT_DEFERRED_UNKNOWN] = "unknown",
		[REPORT_DEFERRED_PART] = "part",
		[REPORT_DEFERRED_USER_EVENT] = "user-event",
	};
	const struct report_deferred *deferred = group;
	bool waits = deferred->reason == REPORT_DEFERRED_USER_EVENT;
	json_t *ret = block_json(deferred);

	JSON_ADD(&ret,
		 { "blocks", json_number(deferred->blocks) },
		 { "reason", json_string(reasons[deferred->reason]) },
		 { "command", JSON_IF(waits, json_event(&deferred->command)) },
		 { "user_event", JSON_IF(waits, json_event(&deferred->event)) },
		 { "pattern", JSON_IF(deferred->pattern, json_text(deferred->pattern)) },
		 { "held_by", holders_json(deferred->holders) });
	return ret;
}

json_t *json_deferred(const struct report_deferred_frees *frees)
{
	return JSON_OBJECT(
		{ "peak_bytes", json_number(frees->peak_bytes) },
		{ "peak_ns", json_number(frees->peak_ns) },
		{ "longest_wait_ns", json_number(frees->longest_wait_ns) },
		{ "longest", frees->longest.kind ? block_json(&frees->longest) : json_null() },
		{ "timeline", JSON_LIST(frees->samples, frees->sample_count, json_sample) },
		{ "held_blocks", json_number(frees->deferred_blocks) },
		{ "held_bytes", json_number(frees->deferred_bytes) },
		{ "held", JSON_LIST(frees->groups, frees->group_count, group_json) });
}
