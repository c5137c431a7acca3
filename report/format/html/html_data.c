/* SPDX-License-Identifier: MIT
 *
 * Changes the tree of the JSON report: adds words of the text report, and moves stacks into
 * tables, because the stacks of many leaks share few frames. Must not contain layout.
 */
#include "report/format/html/html_data.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ledger/kind_table.h"
#include "report/format/json/json_helpers.h"
#include "report/model/model.h"
#include "report/model/model_holders.h"
#include "report/model/model_suballocations.h"
#include "report/format/json/print_json.h"
#include "report/describe/describe_out_of_memory.h"
#include "report/describe/describe_coverage.h"
#include "report/describe/describe_error.h"
#include "report/describe/describe_peak.h"
#include "report/describe/describe_stack.h"
#include "report/describe/describe_suballocations.h"
#include "report/util/short_name.h"
#include "report/util/text_buffer.h"

typedef void print_what(FILE *out, const void *what);

/* Returns the text that PRINT writes for WHAT. */
static json_t *words(print_what *print, const void *what)
{
	struct text_buffer buffer;
	json_t *ret = NULL;

	if (text_buffer_begin(&buffer) < 0)
		return NULL;
	print(buffer.out, what);
	if (text_buffer_end(&buffer) == 0)
		ret = json_text(buffer.text);
	text_buffer_finish(&buffer);
	return ret;
}

static void print_name(FILE *out, const void *what)
{
	describe_process(out, what);
}

static void print_how(FILE *out, const void *what)
{
	describe_ended(out, what);
}

static void print_coverage(FILE *out, const void *what)
{
	describe_coverage(out, what);
}

static void print_told(FILE *out, const void *what)
{
	describe_error_cause(out, what);
}

static void print_words(FILE *out, const void *what)
{
	describe_error_words(out, what);
}

/* Sets KEY to VALUE. Unlike json_set() it keeps OBJECT on failure, because OBJECT belongs to the
 * tree. */
static int set_in(json_t *object, const char *key, json_t *value)
{
	return value && object ? json_object_set_new_nocheck(object, key, value) : -1;
}

static int site_of(const struct report_stack *stack)
{
	const struct report_frame *frame = report_stack_culprit(stack);

	return frame ? (int)(frame - stack->frames) : -1;
}

static int add_to_leaks(json_t *list, const struct report_leak *leaks, size_t count)
{
	int r = 0;

	for (size_t i = 0; i < count && i < json_array_size(list) && r == 0; i++) {
		json_t *leak = json_array_get(list, i);

		r = set_in(leak, "site", json_integer(site_of(leaks[i].stack)));
		if (r == 0 && leaks[i].mapping && json_is_object(json_object_get(leak, "mapped")))
			r = set_in(json_object_get(leak, "mapped"), "site",
				   json_integer(site_of(leaks[i].mapping->mapped.stack)));
	}
	return r;
}

struct html_site {
	const struct report_process *process;
	const struct report_suballocations *entry;
};

static void print_trend(FILE *out, const void *what)
{
	const struct html_site *site = what;

	describe_trend(out, site->process, site->entry);
}

static int add_to_suballocations(json_t *list, const struct report_process *process)
{
	int r = 0;

	for (size_t i = 0; i < process->suballocation_count && i < json_array_size(list) && r == 0;
	     i++) {
		const struct report_suballocations *entry = &process->suballocations[i];
		const struct html_site site = { process, entry };
		json_t *object = json_array_get(list, i);

		r = set_in(object, "site", json_integer(site_of(entry->live.stack)));
		if (r == 0)
			r = set_in(object, "unit",
				   json_string(suballocation_word(entry->live.cache)));
		if (r == 0)
			r = set_in(object, "trend_text", words(print_trend, &site));
	}
	return r;
}

struct html_refusal {
	const struct report_process *process;
	const struct report_out_of_memory *entry;
};

static void print_refusal(FILE *out, const void *what)
{
	const struct html_refusal *refusal = what;

	describe_out_of_memory(out, refusal->process, refusal->entry);
}

static int add_to_holders(json_t *list, const struct report_holders *held)
{
	int r = 0;

	for (size_t i = 0; i < held->count && i < json_array_size(list) && r == 0; i++) {
		json_t *object = json_array_get(list, i);

		r = set_in(object, "site", json_integer(site_of(held->list[i].stack)));
		if (r == 0 && report_is_suballocation(&held->list[i]))
			r = set_in(object, "unit", json_string(describe_unit(&held->list[i])));
		if (r == 0 && report_holder_is_unused(held, &held->list[i]))
			r = set_in(object, "unused", json_true());
	}
	return r;
}

static void print_memory(FILE *out, const void *what)
{
	describe_peak_memory(out, what);
}

static int add_to_peak(json_t *object, const struct report_peak *peak)
{
	int r = set_in(object, "name", words(print_memory, peak));

	return r < 0 ? r : add_to_holders(json_object_get(object, "holders"), &peak->held);
}

static int add_to_peaks(json_t *object, const struct report_process *process)
{
	json_t *others = json_object_get(object, "others");
	int r = process->peak_count ? add_to_peak(object, &process->peaks[0]) : 0;

	for (size_t i = 1; i < process->peak_count && r == 0; i++)
		r = add_to_peak(json_array_get(others, i - 1), &process->peaks[i]);
	return r;
}

static int add_to_out_of_memory(json_t *list, const struct report_process *process)
{
	int r = 0;

	for (size_t i = 0; i < process->out_of_memory_count && r == 0; i++) {
		const struct report_out_of_memory *entry = &process->out_of_memory[i];
		const struct html_refusal refusal = { process, entry };
		json_t *object = json_array_get(list, i);

		r = set_in(object, "site", json_integer(site_of(entry->stack)));
		if (r == 0)
			r = set_in(object, "told", words(print_refusal, &refusal));
		if (r == 0)
			r = add_to_holders(json_object_get(object, "holders"), &entry->held);
	}
	return r;
}

static void print_outside(FILE *out, const void *what)
{
	describe_outside(out, "", what);
}

static int add_to_process(json_t *object, const struct report_process *process)
{
	json_t *errors = json_object_get(object, "errors");
	int r = set_in(object, "name", words(print_name, process));

	if (r == 0)
		r = set_in(object, "how", words(print_how, process));
	if (r == 0)
		r = set_in(object, "coverage_text", words(print_coverage, process));
	if (r == 0)
		r = set_in(object, "outside_text", words(print_outside, process));
	if (r == 0)
		r = add_to_leaks(json_object_get(object, "leaks"), process->leaks,
				 process->leak_count);
	if (r == 0)
		r = add_to_leaks(json_object_get(object, "suppressed"), process->suppressed,
				 process->suppressed_count);
	if (r == 0)
		r = add_to_leaks(json_object_get(object, "cached"), process->cached,
				 process->cached_count);
	if (r == 0)
		r = add_to_suballocations(json_object_get(object, "suballocations"), process);
	if (r == 0)
		r = add_to_out_of_memory(json_object_get(object, "out_of_memory"), process);
	if (r == 0)
		r = add_to_peaks(json_object_get(object, "peak"), process);
	for (size_t i = 0; r == 0 && i < process->error_count; i++) {
		r = set_in(json_array_get(errors, i), "told",
			   words(print_told, &process->errors[i]));
		if (r == 0)
			r = set_in(json_array_get(errors, i), "words",
				   words(print_words, &process->errors[i]));
	}
	return r;
}

static int add_to_report(json_t *root, const struct report *report)
{
	json_t *list = json_object_get(root, "processes"), *kind_names = json_object();
	int r = set_in(root, "kinds", kind_names);

	for (size_t i = 0; i < report->count && r == 0; i++)
		r = add_to_process(list ? json_array_get(list, i) : root, report->processes[i]);
	for (const struct kind *kind = kinds; kind->name[0] && r == 0; kind++)
		r = set_in(kind_names, kind->name, json_string(kind->words));
	return r < 0 ? r : set_in(root, "incomplete", json_boolean(report->incomplete));
}

/* A list in which each value occurs once, found by its JSON text. */
struct values {
	json_t *list;
	json_t *numbers; /* maps the text to the index */
};

/* Returns the index of VALUE, which the caller still owns, or -1 if memory ran out. */
static json_int_t number_of(struct values *values, json_t *value)
{
	char *text = json_dumps(value, JSON_COMPACT);
	json_t *known = text ? json_object_get(values->numbers, text) : NULL;
	json_int_t number = known ? json_integer_value(known)
				  : (json_int_t)json_array_size(values->list);

	if (!text)
		return -1;
	if (!known && (set_in(values->numbers, text, json_integer(number)) < 0 ||
		       json_array_append(values->list, value) < 0))
		number = -1;
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
		json_append(&numbers, json_integer(number_of(&tables->frames, frame)));
	number = numbers ? number_of(&tables->stacks, numbers) : -1;
	json_decref(numbers);
	return number < 0 ? NULL : json_integer(number);
}

/* Replaces every stack in VALUE and its members by an index. The recursion is as deep as the JSON
 * report is nested. */
static int move_stacks(struct html_tables *tables, json_t *value)
{
	const char *key;
	json_t *item;
	size_t i;

	if (json_is_array(value)) {
		json_array_foreach(value, i, item)
			if (move_stacks(tables, item) < 0)
				return -1;
	} else if (json_is_object(value)) {
		json_object_foreach(value, key, item)
			if (strcmp(key, "stack") != 0 && move_stacks(tables, item) < 0)
				return -1;
		item = json_object_get(value, "stack");
		if (json_is_array(item))
			return set_in(value, "stack", stack_number(tables, item));
	}
	return 0;
}

/* Sets "short" to the shorter name of each function that has one. */
static int add_short_names(json_t *frames)
{
	char shorter[SHORT_NAME_MAX];
	json_t *frame;
	int r = 0;
	size_t i;

	json_array_foreach(frames, i, frame) {
		const char *name = json_string_value(json_object_get(frame, "function"));
		const char *given = name && !json_object_get(frame, "language")
					    ? short_name(name, shorter)
					    : name;

		if (r == 0 && given != name)
			r = set_in(frame, "short", json_text(given));
	}
	return r;
}

static int move_all_stacks(json_t *root)
{
	struct html_tables tables = {
		.stacks = { json_array(), json_object() },
		.frames = { json_array(), json_object() },
	};
	int r = move_stacks(&tables, root);

	if (r == 0)
		r = add_short_names(tables.frames.list);
	if (r == 0)
		r = json_object_set_nocheck(root, "frames", tables.frames.list);
	if (r == 0)
		r = json_object_set_nocheck(root, "stacks", tables.stacks.list);
	json_decref(tables.frames.list);
	json_decref(tables.frames.numbers);
	json_decref(tables.stacks.list);
	json_decref(tables.stacks.numbers);
	return r;
}

json_t *html_data(const struct report *report, const struct judgement *judgement)
{
	json_t *root = json_report(report, judgement);

	if (root && add_to_report(root, report) == 0 && move_all_stacks(root) == 0)
		return root;
	json_decref(root);
	return NULL;
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
