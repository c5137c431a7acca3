/* SPDX-License-Identifier: MIT
 *
 * Changes the tree of the JSON report: moves stacks into tables, because the stacks of many leaks
 * share few frames. Must not contain layout.
 */
#include "report/format/html/html_data.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "report/describe/json_helpers.h"
#include "report/format/json/json_report.h"
#include "report/util/short_name.h"

/* A list in which each value occurs once, found by its JSON text. */
struct values {
	json_t *list;
	json_t *numbers; /* maps the text to the index */
};

/* Returns the index of VALUE, which the caller still owns. */
static json_int_t number_of(struct values *values, json_t *value)
{
	char *text = json_dumps(value, JSON_COMPACT);
	json_t *known = json_object_get(values->numbers, text);
	json_int_t number = known ? json_integer_value(known)
				  : (json_int_t)json_array_size(values->list);

	if (!known) {
		json_set(values->numbers, text, json_integer(number));
		json_array_append(values->list, value);
	}
	free(text);
	return number;
}

struct html_tables {
	struct values stacks, frames;
};

static json_t *stack_number(struct html_tables *tables, json_t *stack)
{
	json_t *numbers = json_array(), *frame;
	json_int_t number;
	size_t i;

	json_array_foreach(stack, i, frame)
		json_array_append_new(numbers, json_integer(number_of(&tables->frames, frame)));
	number = number_of(&tables->stacks, numbers);
	json_decref(numbers);
	return json_integer(number);
}

/* Replaces every stack in VALUE and its members by an index. The recursion is as deep as the JSON
 * report is nested. */
static void move_stacks(struct html_tables *tables, json_t *value)
{
	const char *key;
	json_t *item;
	size_t i;

	if (json_is_array(value)) {
		json_array_foreach(value, i, item)
			move_stacks(tables, item);
	} else if (json_is_object(value)) {
		json_object_foreach(value, key, item)
			if (strcmp(key, "stack") != 0)
				move_stacks(tables, item);
		item = json_object_get(value, "stack");
		if (json_is_array(item))
			json_set(value, "stack", stack_number(tables, item));
	}
}

/* Sets "short" to the shorter name of each function that has one. */
static void add_short_names(json_t *frames)
{
	char shorter[SHORT_NAME_MAX];
	json_t *frame;
	size_t i;

	json_array_foreach(frames, i, frame) {
		const char *name = json_string_value(json_object_get(frame, "function"));
		const char *given = name && !json_object_get(frame, "language")
					    ? short_name(name, shorter)
					    : name;

		if (given != name)
			json_set(frame, "short", json_text(given));
	}
}

json_t *html_data(const struct report *report, const struct judgement *judgement)
{
	json_t *root = json_report(report, judgement, true);
	struct html_tables tables = {
		.stacks = { json_array(), json_object() },
		.frames = { json_array(), json_object() },
	};

	move_stacks(&tables, root);
	add_short_names(tables.frames.list);
	json_set(root, "frames", tables.frames.list);
	json_set(root, "stacks", tables.stacks.list);
	json_decref(tables.frames.numbers);
	json_decref(tables.stacks.numbers);
	return root;
}

/* Writes TEXT with <, > and & escaped. TEXT is ASCII JSON, in which these three characters occur
 * only inside strings. */
static int write_escaped(const char *text, size_t size, void *data)
{
	FILE *out = data;

	for (const char *end = text + size; text < end; text++) {
		size_t plain = 0;

		while (text + plain < end && !strchr("<>&", text[plain]))
			plain++;
		fwrite(text, 1, plain, out);
		text += plain;
		if (text == end)
			break;
		fprintf(out, "\\u%04x", (unsigned int)(unsigned char)*text);
	}
	return ferror(out) ? -1 : 0;
}

int html_data_write(const json_t *data, FILE *out)
{
	return json_dump_callback(data, write_escaped, out, JSON_COMPACT | JSON_ENSURE_ASCII) < 0
		       ? -EIO
		       : 0;
}
