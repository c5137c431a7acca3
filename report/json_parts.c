/* SPDX-License-Identifier: MIT
 *
 * Numbers, texts, addresses and stacks as JSON, on jansson, which keeps keys in the order in
 * which they were set.
 */
#include "json_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "escape.h"
#include "model.h"

void json_set(json_t **object, const char *key, json_t *value)
{
	if (*object && value && json_object_set_new_nocheck(*object, key, value) == 0)
		return;
	if (!*object)
		json_decref(value);
	json_decref(*object);
	*object = NULL;
}

void json_append(json_t **array, json_t *value)
{
	if (*array && value && json_array_append_new(*array, value) == 0)
		return;
	if (!*array)
		json_decref(value);
	json_decref(*array);
	*array = NULL;
}

json_t *json_number(uint64_t value)
{
	return json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value);
}

json_t *json_text(const char *value)
{
	json_t *ret;
	char *valid;

	if (!value)
		return json_null();
	ret = json_string(value);
	if (ret) /* it was valid, as nearly always */
		return ret;
	valid = utf8_repair(value);
	ret = valid ? json_string(valid) : NULL;
	free(valid);
	return ret;
}

json_t *json_address(uint64_t value)
{
	char hex[24];

	snprintf(hex, sizeof(hex), "0x%" PRIx64, value);
	return json_string(hex);
}

/* Not told of the application's frames: most readers look for those, and find no key. */
static const char *const roles[] = {
	[FRAME_RUNTIME] = "runtime",
	[FRAME_FRAMEWORK] = "framework",
	[FRAME_INTERPRETER] = "interpreter",
};

static json_t *frame_json(const struct report_frame *frame)
{
	json_t *ret = json_object();

	json_set(&ret, "function", json_text(frame->function));
	json_set(&ret, "file", json_text(frame->file));
	json_set(&ret, "line", json_number(frame->line));
	json_set(&ret, "module", json_text(frame->module));
	json_set(&ret, "offset", json_address(frame->offset));
	if (frame->language == FRAME_PYTHON)
		json_set(&ret, "language", json_string("python"));
	if (frame->role != FRAME_APPLICATION)
		json_set(&ret, "role", json_string(roles[frame->role]));
	return ret;
}

json_t *json_stack(const struct report_stack *stack)
{
	json_t *ret = json_array();

	for (size_t i = 0; i < stack->count && ret; i++)
		json_append(&ret, frame_json(&stack->frames[i]));
	return ret;
}
