/* SPDX-License-Identifier: MIT
 *
 * What was released and not freed, as JSON: all figures, also where nothing is wrong.
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

static json_t *block_json(const struct report_held *held)
{
	json_t *ret = json_object();

	json_set(&ret, "kind", json_text(held->kind));
	json_set(&ret, "bytes", json_number(held->bytes));
	if (held->address)
		json_set(&ret, "address", json_address(held->address));
	json_set(&ret, "released", event_json(&held->released, 0));
	json_set(&ret, "allocated", event_json(&held->allocated, 1));
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

static json_t *reason_json(enum report_held_reason reason)
{
	switch (reason) {
	case REPORT_HELD_PART:
		return json_string("part");
	case REPORT_HELD_USER_EVENT:
		return json_string("user-event");
	case REPORT_HELD_UNKNOWN:
		break;
	}
	return json_string("unknown");
}

static json_t *held_json(const struct report_held *held)
{
	json_t *ret = block_json(held), *holders = json_array();

	json_set(&ret, "blocks", json_number(held->blocks));
	json_set(&ret, "reason", reason_json(held->reason));
	if (held->reason == REPORT_HELD_USER_EVENT) {
		json_set(&ret, "command", json_event(&held->command));
		json_set(&ret, "user_event", json_event(&held->event));
	}
	if (held->pattern)
		json_set(&ret, "pattern", json_text(held->pattern));
	for (const struct report_holder *holder = held->holders; holder; holder = holder->next)
		json_append(&holders, holder_json(holder));
	json_set(&ret, "held_by", holders);
	return ret;
}

json_t *json_released(const struct report_released *released)
{
	json_t *ret = json_object(), *held = json_array();

	for (size_t i = 0; i < released->held_count && held; i++)
		json_append(&held, held_json(&released->held[i]));
	json_set(&ret, "peak_bytes", json_number(released->peak_bytes));
	json_set(&ret, "peak_ns", json_number(released->peak_ns));
	json_set(&ret, "longest_wait_ns", json_number(released->longest_wait_ns));
	json_set(&ret, "longest",
		 released->longest.kind ? block_json(&released->longest) : json_null());
	json_set(&ret, "timeline",
		 json_samples(released->samples, released->sample_count));
	json_set(&ret, "held_blocks", json_number(released->held_blocks));
	json_set(&ret, "held_bytes", json_number(released->held_bytes));
	json_set(&ret, "held", held);
	return ret;
}
