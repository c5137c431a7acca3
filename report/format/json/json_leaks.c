/* SPDX-License-Identifier: MIT
 *
 * Writes leaks, objects that are not memory (streams, events ...) and invalid frees: each with its
 * stacks, and with the calls that retained and released its handle.
 */
#include "report/format/json/json_sections.h"

#include <string.h>

#include "report/analyze/leak_totals.h"
#include "report/describe/kinds.h"
#include "report/describe/result_names.h"
#include "report/format/json/json_helpers.h"
#include "report/model/model.h"
#include "report/symbols/fingerprint.h"

static json_t *frame_json(const void *item)
{
	static const char *const roles[] = {
		[FRAME_APPLICATION] = "application",
		[FRAME_RUNTIME] = "runtime",
		[FRAME_FRAMEWORK] = "framework",
		[FRAME_INTERPRETER] = "interpreter",
	};
	const struct report_frame *frame = item;

	return JSON_OBJECT(
		{ "function", json_text(frame->function) },
		{ "file", json_text(frame->file) },
		{ "line", json_number(frame->line) },
		{ "module", json_text(frame->module) },
		{ "offset", json_address(frame->offset) },
		{ "language", JSON_IF(frame->language == FRAME_PYTHON, json_string("python")) },
		{ "role", JSON_IF(frame->role != FRAME_APPLICATION,
				  json_string(roles[frame->role])) },
		{ "thread", JSON_IF(frame->thread, json_text(frame->thread)) },
		{ "waiting", JSON_IF(frame->waiting, json_true()) });
}

json_t *json_stack(const struct report_stack *stack)
{
	return JSON_LIST(stack->frames, stack->count, frame_json);
}

static bool is_known(const struct report_event *event)
{
	return event->api || event->stack->count;
}

static json_t *event_json(const struct report_event *event)
{
	return JSON_OBJECT(
		{ "api", json_text(event->api) },
		{ "stack", json_stack(event->stack) });
}

static json_t *allocation_json(const struct report_event *event)
{
	return JSON_OBJECT(
		{ "api", json_text(event->api) },
		{ "bytes", json_number(event->bytes) },
		{ "stack", json_stack(event->stack) });
}

json_t *json_event(const struct report_event *event)
{
	return is_known(event) ? event_json(event) : json_null();
}

json_t *json_allocation(const struct report_event *event)
{
	return is_known(event) ? allocation_json(event) : json_null();
}

static json_t *reference_json(const void *item)
{
	static const char *const words[] = {
		[REPORT_CREATE] = "create",
		[REPORT_RETAIN] = "retain",
		[REPORT_RELEASE] = "release",
	};
	const struct report_reference *event = item;

	return JSON_OBJECT(
		{ "op", json_string(words[event->op]) },
		{ "api", json_text(event->api) },
		{ "time_ns", json_number(event->time_ns) },
		{ "stack", json_stack(event->stack) },
		{ "partner", event->partner < 0 ? json_null() : json_integer(event->partner) },
		{ "guess", JSON_IF(event->guess, json_true()) });
}

static json_t *history_json(const struct report_history *history)
{
	json_t *unmatched = json_array();

	for (size_t i = 0; i < history->count; i++)
		if (history->events[i].partner < 0)
			json_append(&unmatched, json_integer((json_int_t)i));
	return JSON_OBJECT(
		{ "references", json_number(history->references) },
		{ "events", JSON_LIST(history->events, history->count, reference_json) },
		{ "left_out", json_number(history->left_out) },
		{ "unpartnered", unmatched },
		{ "complete", json_boolean(history->complete) });
}

json_t *json_fingerprint(const struct report_leak *leak)
{
	char text[FINGERPRINT_TEXT];

	return json_string(report_fingerprint_text(report_leak_fingerprint(leak), text));
}

static json_t *keeper_json(const void *item)
{
	const struct report_keeper *keeper = item;

	return JSON_OBJECT(
		{ "blocks", json_number(keeper->blocks) },
		{ "text", json_text(keeper->text) });
}

json_t *json_keepers(const struct report_keepers *keepers)
{
	return JSON_LIST(keepers->list, keepers->count, keeper_json);
}

json_t *json_keepers_time(const struct report_keepers *keepers)
{
	return json_real((double)keepers->time_ns / 1e9);
}

json_t *json_leak(const void *item)
{
	const struct report_leak *leak = item;
	const struct report_mapping *mapping = leak->mapping;

	return JSON_OBJECT(
		{ "api", json_text(leak->api) },
		{ "kind", json_text(leak->kind) },
		{ "fingerprint", json_fingerprint(leak) },
		{ "device", json_integer(leak->device) },
		{ "bytes", json_number(leak->bytes) },
		{ "blocks", json_number(leak->blocks) },
		{ "suballocated_bytes", JSON_IF(leak->used_bytes,
						json_number(leak->used_bytes)) },
		{ "stack", json_stack(leak->stack) },
		{ "history", JSON_IF(leak->history, history_json(leak->history)) },
		{ "mapped", JSON_IF(mapping, json_event(&mapping->mapped)) },
		{ "released", JSON_IF(mapping, json_event(&mapping->released)) },
		{ "pattern", JSON_IF(leak->pattern, json_text(leak->pattern)) },
		{ "cache", JSON_IF(leak->cache, json_text(leak->cache)) },
		{ "ignored", JSON_IF(leak->ignored, json_true()) },
		{ "keepers", JSON_IF(leak->keepers, json_keepers(leak->keepers)) },
		{ "keepers_seconds", JSON_IF(leak->keepers, json_keepers_time(leak->keepers)) },
		{ "ledger_site", JSON_IF(leak->addresses, json_number(leak->addresses->site)) },
		{ "addresses", JSON_IF(leak->addresses, json_addresses(leak->addresses)) });
}

/* Returns the word of KIND in JSON. For CUDA's kinds these words have no prefix. OpenCL's kinds
 * keep their prefix, because it was in JSON from the beginning. */
const char *json_object_word(const char *kind)
{
	return strncmp(object_name(kind), "cl-", 3) == 0 ? kind : object_name(kind);
}

json_t *json_object_kind(const void *item)
{
	const struct report_object_kind *kind = item;

	return JSON_OBJECT(
		{ "kind", json_text(json_object_word(kind->kind)) },
		{ "count", json_number(kind->live) },
		{ "created", json_number(kind->counts.created) },
		{ "destroyed", json_number(kind->counts.destroyed) },
		{ "ended_with_context", json_number(kind->counts.with_context) });
}

json_t *json_not_memory(const void *item)
{
	const struct report_leak *object = item;

	return JSON_OBJECT(
		{ "api", json_text(object->api) },
		{ "kind", json_text(json_object_word(object->kind)) },
		{ "fingerprint", json_fingerprint(object) },
		{ "count", json_number(object->blocks) },
		{ "created", json_number(object->objects.created) },
		{ "destroyed", json_number(object->objects.destroyed) },
		{ "ended_with_context", json_number(object->objects.with_context) },
		{ "device", json_integer(object->device) },
		{ "pattern", JSON_IF(object->pattern, json_text(object->pattern)) },
		{ "references", json_number(object->references) },
		{ "stack", json_stack(object->stack) },
		{ "history", JSON_IF(object->history, history_json(object->history)) });
}

static json_t *earlier_json(const struct report_error *error)
{
	return JSON_OBJECT(
		{ "allocated", allocation_json(&error->earlier_allocated) },
		{ "freed", event_json(&error->earlier_freed) });
}

json_t *json_error(const void *item)
{
	const struct report_error *error = item;
	bool has_earlier = is_known(&error->earlier_freed);

	return JSON_OBJECT(
		{ "type", json_text(error->type) },
		{ "api", json_text(error->api) },
		{ "address", json_address(error->address) },
		{ "stack", json_stack(error->stack) },
		{ "allocated", json_allocation(&error->allocated) },
		{ "freed", json_event(&error->freed) },
		{ "earlier", JSON_IF(has_earlier, earlier_json(error)) },
		{ "culprit_candidate", JSON_IF(has_earlier, json_string("freed")) },
		{ "result", error->result == REPORT_NO_ANSWER ? json_null()
							      : json_integer(error->result) },
		{ "result_name", json_text(result_name(error->api, error->result)) },
		{ "block_address", JSON_IF(error->block_address,
					   json_address(error->block_address)) },
		{ "asked_bytes", JSON_IF(error->other_range, json_number(error->asked_bytes)) },
		{ "mapped_bytes", JSON_IF(strcmp(error->type, "freed-while-mapped") == 0,
					  json_number(error->asked_bytes)) });
}
