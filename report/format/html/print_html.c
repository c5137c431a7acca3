/* SPDX-License-Identifier: MIT
 *
 * Fills in the HTML page: the JSON report as data, in which each frame and each stack is only once,
 * because the stacks of many leaks share few frames; and the text report for the first line and for
 * browsers without scripts. Escapes both. Must not contain words about leaks, or layout.
 */
#include "report/subjects/formats.h"

#include "report/describe/json_helpers.h"
#include "report/format/json/json_report.h"
#include "report/util/short_name.h"
#include "report/util/xml.h"

/* limit for the text report in the page: the page has the same contents as tables */
#define TEXT_MAX ((size_t)256 << 10)

/* html/embed_page.py makes it from html/template.html, report.css and report.js. */
extern const char html_page[];

/* ---- data ---- */

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

/* Returns the data of the page. It differs from the JSON report in this: "stack" is an index into
 * "stacks", whose items are indices into "frames". A process also has "name", "how",
 * "coverage_text" and "outside_text". A leak and an entry of "suballocations" also have "site", the
 * index of the frame to show (-1: none), and the latter "unit" and "trend_text". An error also has
 * "told". "kinds" has the words of kinds.def by name, and "figures" the titles of each subject's
 * figures. "incomplete" means that "no leaks" is not proven. */
static json_t *page_data(const struct report *report, const struct judgement *judgement)
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

	for (const char *end = text + size; text < end; text++)
		if (*text == '<' || *text == '>' || *text == '&')
			fprintf(out, "\\u%04x", (unsigned int)*text);
		else
			putc_unlocked(*text, out);
	return ferror(out) ? -1 : 0;
}

/* ---- page ---- */

/* Writes the first line of TEXT without "gpuleak: ". */
static void write_headline(FILE *out, const char *text)
{
	static const char name[] = "gpuleak: ";
	bool is_named = strncmp(text, name, strlen(name)) == 0;
	FREE_AT_END char *line = strndup(text, strcspn(text, "\n"));

	xml_text(out, line + (is_named ? strlen(name) : 0));
}

static void write_whole_text(FILE *out, const char *text)
{
	FREE_AT_END char *part = strndup(text, TEXT_MAX);
	const char *end = strrchr(part, '\n');

	if (strlen(text) > TEXT_MAX)
		part[end ? end + 1 - part : 0] = '\0';
	xml_text(out, part);
	if (strlen(text) > TEXT_MAX)
		fputs("(cut off: --format text prints the whole report)\n", out);
}

/* Writes the page. html_page has {{NAME}} where a content of the report belongs. */
static int write_page(FILE *out, const char *text, const json_t *data)
{
	const char *at = html_page, *mark;
	int r = 0;

	for (; r == 0 && (mark = strstr(at, "{{")); at = strstr(mark, "}}") + 2) {
		fwrite(at, 1, (size_t)(mark - at), out);
		if (mark[2] == 'h')
			write_headline(out, text);
		else if (mark[2] == 't')
			write_whole_text(out, text);
		else
			r = json_dump_callback(data, write_escaped, out,
					       JSON_COMPACT | JSON_ENSURE_ASCII);
	}
	fputs(at, out);
	return r < 0 || ferror(out) ? -EIO : 0;
}

int print_html(const struct report *report, const struct judgement *judgement, FILE *out)
{
	json_t *data = page_data(report, judgement);
	FREE_AT_END char *words = PRINTED(to, print_text(report, judgement, to));
	int r = write_page(out, words, data);

	json_decref(data);
	return r;
}
