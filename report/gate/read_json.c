/* SPDX-License-Identifier: MIT
 *
 * Parses JSON with jansson and checks that it is a report. If a required part of a leak is
 * missing, the file is invalid. If a part of a frame is missing, that part is unknown.
 */
#include "report/gate/read_json.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/model/model.h"
#include "report/model/model_holders.h"
#include "report/model/model_suballocations.h"
#include "report/suppress/suppress.h"
#include "report/util/number.h"
#include "report/util/path.h"
#include "report/util/report_arena.h"

#define SCHEMA "gpuleak-report/1"

struct input {
	const char *name;
	char *error;
	size_t error_size;
	struct report_arena *arena;
	const struct pattern_file *suppressions; /* of the command, or NULL */
	bool is_bad; /* `error` describes the first error */
};

/* Stores what is wrong with the file, unless an earlier error is stored. Reading goes on. */
static void bad(struct input *in, const char *what)
{
	if (!in->is_bad)
		snprintf(in->error, in->error_size, "%s: is not a gpuleak report in JSON: %s",
			 in->name, what);
	in->is_bad = true;
}

/* Returns a copy of the string KEY of OBJECT, or NULL if OBJECT does not have that string. */
static const char *read_text(struct input *in, const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? arena_text(in->arena, text, strlen(text)) : NULL;
}

static uint64_t read_number(struct input *in, const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);

	if (!json_is_integer(value) || json_integer_value(value) < 0)
		bad(in, key);
	return (uint64_t)json_integer_value(value);
}

static int small_integer(const json_t *object, const char *key, int fallback)
{
	const json_t *value = json_object_get(object, key);
	json_int_t number = json_integer_value(value);

	return json_is_integer(value) && number >= INT_MIN && number <= INT_MAX ? (int)number
										 : fallback;
}

/* Reads a hexadecimal number with or without 0x. Returns 0 if there is none. */
static uint64_t hex_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? strtoull(text, NULL, 16) : 0;
}

static enum frame_role role_of(const json_t *object)
{
	const char *word = json_string_value(json_object_get(object, "role"));

	return !word			       ? FRAME_APPLICATION
	       : strcmp(word, "runtime") == 0   ? FRAME_RUNTIME
	       : strcmp(word, "framework") == 0 ? FRAME_FRAMEWORK
	       : strcmp(word, "interpreter") == 0 ? FRAME_INTERPRETER
						  : FRAME_APPLICATION;
}

static void read_frame(struct input *in, const json_t *object, struct report_frame *ret)
{
	const char *code = json_string_value(json_object_get(object, "code"));
	int line = small_integer(object, "line", 0);

	ret->function = read_text(in, object, "function");
	ret->file = read_text(in, object, "file");
	ret->module = read_text(in, object, "module");
	ret->line = line > 0 ? (unsigned int)line : 0;
	ret->offset = hex_of(object, "offset");
	ret->role = role_of(object);
	ret->code = !code ? FRAME_OWN : *code == 'w' ? FRAME_WRAPPER : FRAME_PACKAGE;
}

static const struct report_stack *read_stack(struct input *in, const json_t *object)
{
	const json_t *array = json_object_get(object, "stack");
	size_t count = json_array_size(array);
	struct report_stack *stack = arena_alloc(in->arena, sizeof(*stack));
	struct report_frame *frames = arena_alloc(in->arena, count * sizeof(*frames));

	for (size_t i = 0; i < count; i++)
		read_frame(in, json_array_get(array, i), &frames[i]);
	stack->frames = frames;
	stack->count = count;
	stack->partial = json_is_true(json_object_get(object, "partial")) ? "" : NULL;
	return stack;
}

/* Stores in LEAK the pattern of the command's suppressions that matches it, unless it has one. */
static void suppress(struct input *in, struct report_leak *leak)
{
	int index = leak->pattern ? -1
				  : suppressions_match(in->suppressions, leak->site->stack->frames,
						       leak->site->stack->count);

	if (index >= 0)
		leak->pattern = in->suppressions->rules[index].pattern.text;
}

/* Reads the call site of a leak or an object. */
static struct report_site *read_site(struct input *in, const json_t *object)
{
	struct report_site *ret = arena_alloc(in->arena, sizeof(*ret));

	*ret = (struct report_site){ .api = read_text(in, object, "api"),
				     .kind = read_text(in, object, "kind"),
				     .device = small_integer(object, "device", -1),
				     .stack = read_stack(in, object),
				     .fingerprint = hex_of(object, "fingerprint"),
				     .fingerprint2 = hex_of(object, "fingerprint2") };
	if (!ret->api || !ret->kind)
		bad(in, "an entry without api or kind");
	return ret;
}

static void read_leak(struct input *in, const json_t *object, void *leak)
{
	struct report_leak *ret = leak;

	ret->site = read_site(in, object);
	ret->cache = read_text(in, object, "cache");
	ret->bytes = read_number(in, object, "bytes");
	ret->blocks = read_number(in, object, "blocks");
}

/* Reads OBJECT into *RET, which is all zero. */
typedef void read_element_fn(struct input *in, const json_t *object, void *ret);

/* Returns the elements of the array KEY of OBJECT, each of SIZE bytes, and stores their number in
 * *RET_COUNT. If the array is missing, the list is empty, because older reports do not have every
 * array. */
static void *read_list(struct input *in, const json_t *object, const char *key, size_t size,
		       read_element_fn *read, size_t *ret_count)
{
	const json_t *array = json_object_get(object, key);
	size_t count = json_array_size(array);
	char *ret = arena_alloc(in->arena, (count + 1) * size);

	if (array && !json_is_array(array))
		bad(in, key);
	for (size_t i = 0; i < count; i++)
		read(in, json_array_get(array, i), ret + i * size);
	*ret_count = count;
	return ret;
}

static void read_leaks(struct input *in, const json_t *object, struct report_process *process)
{
	struct report_summary *sum = &process->summary;
	size_t count;

	if (!json_object_get(object, "leaks"))
		bad(in, "leaks");
	process->leaks = read_list(in, object, "leaks", sizeof(*process->leaks), read_leak, &count);
	for (size_t i = 0; i < count; i++) {
		struct report_leak leak = process->leaks[i];

		suppress(in, &leak);
		if (leak.pattern)
			continue;
		process->leaks[process->leak_count++] = leak;
		sum->leaked_bytes = add_bounded(sum->leaked_bytes, leak.bytes);
		sum->leaked_blocks = add_bounded(sum->leaked_blocks, leak.blocks);
	}
}

/* Reads an entry of "ended_with_context", without the call that ended the context. */
static void read_context_end(struct input *in, const json_t *object, void *entry)
{
	struct report_context_end *ret = entry;

	read_leak(in, object, &ret->lost);
	ret->lost.pattern = read_text(in, object, "pattern");
	suppress(in, &ret->lost);
}

/* Reads an entry of "suballocations". An older report has no trend. */
static void read_suballocation(struct input *in, const json_t *object, void *entry)
{
	struct report_suballocations *ret = entry;
	const char *trend = json_string_value(json_object_get(object, "trend"));

	read_leak(in, object, &ret->live);
	ret->live.pattern = read_text(in, object, "pattern");
	suppress(in, &ret->live);
	if (!trend || strcmp(trend, "accumulating") != 0)
		return;
	ret->trend = TREND_ACCUMULATING;
	ret->kept_bytes = read_number(in, object, "kept_bytes");
	ret->kept_blocks = read_number(in, object, "kept_blocks");
}

static void read_peak(struct input *in, const json_t *object, struct report_peak *ret)
{
	ret->bytes = read_number(in, object, "bytes");
	ret->device = small_integer(object, "device", -1);
	ret->held.list = read_list(in, object, "holders", sizeof(*ret->held.list), read_leak,
				   &ret->held.count);
}

/* Reads the peaks. An older report does not have them. */
static void read_peaks(struct input *in, const json_t *object, struct report_process *process)
{
	const json_t *others = json_object_get(object, "others");
	size_t count = json_array_size(others);

	if (!object || json_is_null(object))
		return;
	if (!json_is_object(object) || (others && !json_is_array(others))) {
		bad(in, "peak");
		return;
	}
	process->peaks = arena_alloc(in->arena, (count + 1) * sizeof(*process->peaks));
	read_peak(in, object, &process->peaks[process->peak_count++]);
	for (size_t i = 0; i < count; i++)
		read_peak(in, json_array_get(others, i), &process->peaks[process->peak_count++]);
}

/* Reads an entry of "objects". Its kind lacks the "object/" of the ledger, except OpenCL's kinds.
 * An older report has no fingerprints of objects. */
static void read_object(struct input *in, const json_t *object, void *leak)
{
	struct report_site *site = read_site(in, object);
	struct report_leak *ret = leak;

	ret->site = site;
	ret->pattern = read_text(in, object, "pattern");
	ret->blocks = read_number(in, object, "count");
	suppress(in, ret);
	if (site->kind && !kind_is_object(site->kind))
		site->kind = arena_printf(in->arena, LEDGER_KIND_OBJECT "%s", site->kind);
}

static void read_process(struct input *in, const json_t *object, struct report_process *process)
{
	const json_t *who = json_object_get(object, "process");

	process->exe = read_text(in, who, "exe");
	process->host = read_text(in, who, "host");
	process->summary.errors =
		read_number(in, json_object_get(object, "summary"), "errors");
	process->pid = small_integer(who, "pid", 0);
	process->rank = small_integer(who, "rank", -1);
	process->ranked = process->rank >= 0;
	process->program = process->exe ? path_last(process->exe) : "?";
	process->ledger = in->name;
	read_leaks(in, object, process);
	process->suballocations = read_list(in, object, "suballocations",
					    sizeof(*process->suballocations), read_suballocation,
					    &process->suballocation_count);
	process->context_ends = read_list(in, object, "ended_with_context",
					  sizeof(*process->context_ends), read_context_end,
					  &process->context_end_count);
	process->has_suballocations = json_object_get(object, "suballocations") != NULL;
	process->objects = read_list(in, object, "objects", sizeof(*process->objects), read_object,
				     &process->object_count);
	read_peaks(in, json_object_get(object, "peak"), process);
}

static void add_process(struct input *in, const json_t *object, struct report *report)
{
	struct report_process *process = calloc(1, sizeof(*process));

	process->arena = calloc(1, sizeof(*process->arena));
	in->arena = process->arena;
	read_process(in, object, process);
	if (in->is_bad)
		report_process_destroy(process);
	else
		report_add_process(report, process);
}

static void add_all(struct input *in, const json_t *root, struct report *report)
{
	const char *schema = json_string_value(json_object_get(root, "schema"));
	const json_t *list = json_object_get(root, "processes");

	if (!schema || strcmp(schema, SCHEMA) != 0)
		bad(in, "its schema is not " SCHEMA);
	else if (!list)
		add_process(in, root, report);
	else if (!json_is_array(list))
		bad(in, "processes");
	for (size_t i = 0; i < json_array_size(list) && !in->is_bad; i++)
		add_process(in, json_array_get(list, i), report);
}

static int add_root(struct input *in, json_t *root, const json_error_t *why, struct report *report)
{
	if (!root) {
		snprintf(in->error, in->error_size, "%s:%d: %s", in->name,
			 why->line > 0 ? why->line : 1, why->text);
		return -EBADMSG;
	}
	add_all(in, root, report);
	json_decref(root);
	return in->is_bad ? -EBADMSG : 0;
}

int report_parse_json(const char *text, size_t length, const char *name, struct report *report,
		      char *error, size_t error_size)
{
	struct input in = { name, error, error_size, NULL, report->suppressions, false };
	json_error_t why;

	return add_root(&in, json_loadb(text, length, 0, &why), &why, report);
}

int report_read_json(const char *path, struct report *report, char *error, size_t error_size)
{
	struct input in = { path, error, error_size, NULL, report->suppressions, false };
	json_error_t why;

	return add_root(&in, json_load_file(path, 0, &why), &why, report);
}
