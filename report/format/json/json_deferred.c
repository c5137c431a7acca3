/* SPDX-License-Identifier: MIT
 *
 * Writes all values of deferred frees, also if nothing is wrong.
 */
#include "report/format/json/json_deferred.h"

#include "report/format/json/json_helpers.h"
#include "report/model/model.h"

static json_t *event_json(const struct report_event *event, int with_bytes)
{
	json_t *ret;

	if (!event->api && !event->stack->count)
		return json_null();
	ret = json_object();
	json_set(&ret, "api", json_text(event->api));
	if (with_bytes)
		json_set(&ret, "bytes", json_number(event->bytes));
	json_set(&ret, "stack", json_stack(event->stack));
	return ret;
}

json_t *json_event(const struct report_event *event)
{
	return event_json(event, 0);
}

static json_t *block_json(const struct report_deferred *deferred)
{
	json_t *ret = json_object();

	json_set(&ret, "kind", json_text(deferred->kind));
	json_set(&ret, "bytes", json_number(deferred->bytes));
	if (deferred->address)
		json_set(&ret, "address", json_address(deferred->address));
	json_set(&ret, "released", event_json(&deferred->released, 0));
	json_set(&ret, "allocated", event_json(&deferred->allocated, 1));
	return ret;
}

static json_t *holder_json(const struct report_holder *holder)
{
	json_t *ret = json_object();

	json_set(&ret, "what", json_text(holder->what));
	json_set(&ret, "kind", json_text(holder->kind));
	json_set(&ret, "address", json_address(holder->address));
	json_set(&ret, "allocated", event_json(&holder->allocated, 1));
	return ret;
}

static json_t *reason_json(enum report_deferred_reason reason)
{
	switch (reason) {
	case REPORT_DEFERRED_PART:
		return json_string("part");
	case REPORT_DEFERRED_USER_EVENT:
		return json_string("user-event");
	case REPORT_DEFERRED_UNKNOWN:
		break;
	}
	return json_string("unknown");
}

static json_t *deferred_json(const struct report_deferred *deferred)
{
	json_t *ret = block_json(deferred), *holders = json_array();

	json_set(&ret, "blocks", json_number(deferred->blocks));
	json_set(&ret, "reason", reason_json(deferred->reason));
	if (deferred->reason == REPORT_DEFERRED_USER_EVENT) {
		json_set(&ret, "command", json_event(&deferred->command));
		json_set(&ret, "user_event", json_event(&deferred->event));
	}
	if (deferred->pattern)
		json_set(&ret, "pattern", json_text(deferred->pattern));
	for (const struct report_holder *holder = deferred->holders; holder; holder = holder->next)
		json_append(&holders, holder_json(holder));
	json_set(&ret, "held_by", holders);
	return ret;
}

json_t *json_deferred(const struct report_deferred_frees *frees)
{
	json_t *ret = json_object(), *deferred = json_array();

	for (size_t i = 0; i < frees->group_count && deferred; i++)
		json_append(&deferred, deferred_json(&frees->groups[i]));
	json_set(&ret, "peak_bytes", json_number(frees->peak_bytes));
	json_set(&ret, "peak_ns", json_number(frees->peak_ns));
	json_set(&ret, "longest_wait_ns", json_number(frees->longest_wait_ns));
	json_set(&ret, "longest", frees->longest.kind ? block_json(&frees->longest) : json_null());
	json_set(&ret, "timeline", json_samples(frees->samples, frees->sample_count));
	json_set(&ret, "held_blocks", json_number(frees->deferred_blocks));
	json_set(&ret, "held_bytes", json_number(frees->deferred_bytes));
	json_set(&ret, "held", deferred);
	return ret;
}
