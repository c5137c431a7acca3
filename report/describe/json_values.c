/* SPDX-License-Identifier: MIT
 *
 * Makes JSON of stacks, calls and samples.
 */
#include "report/describe/json_values.h"

#include "report/describe/json_helpers.h"
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
	static const char *const languages[] = {
		[FRAME_PYTHON] = "python",
		[FRAME_JAVA] = "java",
		[FRAME_RUBY] = "ruby",
		[FRAME_PHP] = "php",
	};
	const struct report_frame *frame = item;

	return JSON_OBJECT(
		{ "function", json_text(frame->function) },
		{ "file", json_text(frame->file) },
		{ "line", json_number(frame->line) },
		{ "module", json_text(frame->module) },
		{ "offset", json_address(frame->offset) },
		{ "language", JSON_IF(frame->language != FRAME_NATIVE,
				      json_string(languages[frame->language])) },
		{ "role", JSON_IF(frame->role != FRAME_APPLICATION,
				  json_string(roles[frame->role])) },
		{ "code", JSON_IF(frame->code, json_string(frame->code == FRAME_PACKAGE
								   ? "package"
								   : "wrapper")) },
		{ "thread", JSON_IF(frame->thread, json_text(frame->thread)) },
		{ "waiting", JSON_IF(frame->waiting, json_true()) });
}

json_t *json_stack(const struct report_stack *stack)
{
	return JSON_LIST(stack->frames, stack->count, frame_json);
}

json_t *json_site(const struct report_stack *stack)
{
	const struct report_frame *frame = report_stack_culprit(stack);

	return json_integer(frame ? frame - stack->frames : -1);
}

static bool is_known(const struct report_event *event)
{
	return event->api || event->stack->count;
}

json_t *json_event(const struct report_event *event)
{
	return !is_known(event) ? json_null()
				: JSON_OBJECT(
					  { "api", json_text(event->api) },
					  { "stack", json_stack(event->stack) });
}

json_t *json_allocation(const struct report_event *event)
{
	return !is_known(event) ? json_null()
				: JSON_OBJECT(
					  { "api", json_text(event->api) },
					  { "bytes", json_number(event->bytes) },
					  { "stack", json_stack(event->stack) });
}

json_t *json_fingerprint(const struct report_leak *leak)
{
	return json_string(FINGERPRINT(report_site_fingerprint(leak->site),
				       leak->site->stack->partial));
}

json_t *json_fingerprint2(const struct report_leak *leak)
{
	return json_string(FINGERPRINT(report_site_fingerprint2(leak->site),
				       leak->site->stack->partial));
}

json_t *json_sample(const void *item)
{
	const struct report_sample *sample = item;

	return JSON_ARRAY(json_number(sample->time_ns), json_number(sample->bytes));
}
