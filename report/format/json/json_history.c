/* SPDX-License-Identifier: MIT
 *
 * Writes every event of a handle's history with its stack and the index of the matching event.
 */
#include "report/format/json/json_history.h"

#include "report/format/json/json_helpers.h"
#include "report/model/model.h"

static const char *op_word(enum report_op op)
{
	switch (op) {
	case REPORT_CREATE:
		return "create";
	case REPORT_RETAIN:
		return "retain";
	case REPORT_RELEASE:
		break;
	}
	return "release";
}

static json_t *event_json(const struct report_reference *event)
{
	json_t *ret = json_object();

	json_set(&ret, "op", json_string(op_word(event->op)));
	json_set(&ret, "api", json_text(event->api));
	json_set(&ret, "time_ns", json_number(event->time_ns));
	json_set(&ret, "stack", json_stack(event->stack));
	json_set(&ret, "partner", event->partner < 0 ? json_null() : json_integer(event->partner));
	if (event->guess)
		json_set(&ret, "guess", json_true());
	return ret;
}

json_t *json_history(const struct report_history *history)
{
	json_t *ret = json_object(), *events = json_array(), *unpartnered = json_array();

	for (size_t i = 0; i < history->count; i++) {
		json_append(&events, event_json(&history->events[i]));
		if (history->events[i].partner < 0)
			json_append(&unpartnered, json_integer((json_int_t)i));
	}
	json_set(&ret, "references", json_number(history->references));
	json_set(&ret, "events", events);
	json_set(&ret, "left_out", json_number(history->left_out));
	json_set(&ret, "unpartnered", unpartnered);
	json_set(&ret, "complete", json_boolean(history->complete));
	return ret;
}
