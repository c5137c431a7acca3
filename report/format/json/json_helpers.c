/* SPDX-License-Identifier: MIT
 *
 * Creates numbers, texts, addresses and stacks with jansson, which keeps the order of keys.
 */
#include "report/format/json/json_helpers.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "report/util/escape.h"
#include "report/model/model.h"
#include "ledger/utf8.h"

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

/* Returns how many bytes at TEXT can be copied unchanged. All newlines in TEXT are jansson's
 * indentation, because jansson escapes newlines of strings. */
static size_t copied(const char *text, size_t length)
{
	size_t at = 0, step = 1;

	while (at < length && step) {
		step = text[at] == '\n' || (text[at] >= ' ' && text[at] < 0x7f)
			       ? 1
			       : utf8_shown_within(text + at, length - at);
		at += step;
	}
	return at;
}

static int write_shown(const char *text, size_t length, void *out)
{
	size_t done = copied(text, length);

	fwrite(text, 1, done, out);
	while (done < length) {
		size_t whole = utf8_length_within(text + done, length - done), rest;

		fprintf(out, "\\u%04x",
			whole ? utf8_code_point(text + done, whole) : 0xfffd);
		done += whole ? whole : 1;
		rest = copied(text + done, length - done);
		fwrite(text + done, 1, rest, out);
		done += rest;
	}
	return ferror((FILE *)out) ? -1 : 0;
}

int json_dump_shown(const json_t *root, FILE *out, int indent)
{
	return json_dump_callback(root, write_shown, out, JSON_INDENT((size_t)indent)) == 0
		       ? 0
		       : -EIO;
}

int json_write(json_t *root, FILE *out)
{
	int r;

	if (!root)
		return -ENOMEM;
	r = json_dump_shown(root, out, 2);
	if (fputc('\n', out) == EOF)
		r = -EIO;
	json_decref(root);
	return r;
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
	if (ret) /* valid UTF-8, the usual case */
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

json_t *json_samples(const struct report_sample *samples, size_t count)
{
	json_t *ret = json_array();

	for (size_t i = 0; i < count && ret; i++) {
		json_t *sample = json_array();

		json_append(&sample, json_number(samples[i].time_ns));
		json_append(&sample, json_number(samples[i].bytes));
		json_append(&ret, sample);
	}
	return ret;
}

static const char *role_word(enum frame_role role)
{
	switch (role) {
	case FRAME_RUNTIME:
		return "runtime";
	case FRAME_FRAMEWORK:
		return "framework";
	case FRAME_INTERPRETER:
		return "interpreter";
	case FRAME_APPLICATION:
		break;
	}
	return "application";
}

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
		json_set(&ret, "role", json_string(role_word(frame->role)));
	return ret;
}

json_t *json_stack(const struct report_stack *stack)
{
	json_t *ret = json_array();

	for (size_t i = 0; i < stack->count && ret; i++)
		json_append(&ret, frame_json(&stack->frames[i]));
	return ret;
}
