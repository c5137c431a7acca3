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
#include "report/util/report_arena.h"

#define SCHEMA "gpuleak-report/1"

struct input {
	const char *name;
	char *error;
	size_t error_size;
	struct report_arena *arena;
	const struct pattern_file *suppressions; /* of the command, or NULL */
};

static int bad(const struct input *in, const char *what)
{
	snprintf(in->error, in->error_size, "%s: is not a gpuleak report in JSON: %s", in->name,
		 what);
	return -EBADMSG;
}

static int no_memory(const struct input *in)
{
	snprintf(in->error, in->error_size, "%s: out of memory", in->name);
	return -ENOMEM;
}

/* Stores in *RET a copy of the string KEY of OBJECT. Leaves *RET unchanged (NULL) if there is
 * none. */
static int read_text(const struct input *in, const json_t *object, const char *key,
		     const char **ret)
{
	const char *text = json_string_value(json_object_get(object, key));

	if (!text)
		return 0;
	*ret = arena_text(in->arena, text, strlen(text));
	return *ret ? 0 : no_memory(in);
}

static int read_number(const struct input *in, const json_t *object, const char *key, uint64_t *ret)
{
	const json_t *value = json_object_get(object, key);

	if (!json_is_integer(value) || json_integer_value(value) < 0)
		return bad(in, key);
	*ret = (uint64_t)json_integer_value(value);
	return 0;
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

static int read_frame(const struct input *in, const json_t *object, struct report_frame *ret)
{
	int r = read_text(in, object, "function", &ret->function), line;

	if (r == 0)
		r = read_text(in, object, "file", &ret->file);
	if (r == 0)
		r = read_text(in, object, "module", &ret->module);
	line = small_integer(object, "line", 0);
	ret->line = line > 0 ? (unsigned int)line : 0;
	ret->offset = hex_of(object, "offset");
	ret->role = role_of(object);
	return r;
}

static int read_stack(const struct input *in, const json_t *array, const struct report_stack **ret)
{
	size_t count = json_array_size(array);
	struct report_stack *stack = arena_alloc(in->arena, sizeof(*stack));
	struct report_frame *frames = arena_alloc(in->arena, count * sizeof(*frames));
	int r = 0;

	if (!stack || !frames)
		return no_memory(in);
	for (size_t i = 0; i < count && r == 0; i++)
		r = read_frame(in, json_array_get(array, i), &frames[i]);
	stack->frames = frames;
	stack->count = count;
	*ret = stack;
	return r;
}

/* Stores in LEAK the pattern of the command's suppressions that matches it, unless it has one. */
static void suppress(const struct input *in, struct report_leak *leak)
{
	int index = leak->pattern ? -1
				  : suppressions_match(in->suppressions, leak->stack->frames,
						       leak->stack->count);

	if (index >= 0)
		leak->pattern = in->suppressions->rules[index].pattern.text;
}

/* Reads the members that a leak and an object both have: the call that made it, and its stack. */
static int read_call(const struct input *in, const json_t *object, struct report_leak *ret)
{
	int r = read_text(in, object, "api", &ret->api);

	if (r == 0)
		r = read_text(in, object, "kind", &ret->kind);
	if (r == 0 && (!ret->api || !ret->kind))
		r = bad(in, "an entry without api or kind");
	if (r == 0)
		r = read_stack(in, json_object_get(object, "stack"), &ret->stack);
	ret->device = small_integer(object, "device", -1);
	return r;
}

static int read_leak(const struct input *in, const json_t *object, void *leak)
{
	struct report_leak *ret = leak;
	int r = read_call(in, object, ret);

	if (r == 0)
		r = read_number(in, object, "bytes", &ret->bytes);
	if (r == 0)
		r = read_number(in, object, "blocks", &ret->blocks);
	ret->fingerprint = hex_of(object, "fingerprint");
	return r;
}

/* Elements of a JSON array. */
struct json_list {
	void *elements;
	size_t count;
};
/* Reads OBJECT into *RET, which is all zero. */
typedef int read_element_fn(const struct input *in, const json_t *object, void *ret);

/* Reads the array KEY of OBJECT into elements of SIZE bytes. If the array is missing, the list is
 * empty, because older reports do not have every array. */
static int read_list(const struct input *in, const json_t *object, const char *key, size_t size,
		     read_element_fn *read, struct json_list *ret)
{
	const json_t *array = json_object_get(object, key);
	size_t count = json_array_size(array);
	int r = 0;

	*ret = (struct json_list){ 0 };
	if (array && !json_is_array(array))
		return bad(in, key);
	ret->elements = arena_alloc(in->arena, (count + 1) * size);
	if (!ret->elements)
		return no_memory(in);
	for (; r == 0 && ret->count < count; ret->count++)
		r = read(in, json_array_get(array, ret->count),
			 (char *)ret->elements + ret->count * size);
	return r;
}

static int read_leaks(const struct input *in, const json_t *object, struct report_process *process)
{
	struct report_summary *sum = &process->summary;
	struct json_list list;
	int r;

	if (!json_object_get(object, "leaks"))
		return bad(in, "leaks");
	r = read_list(in, object, "leaks", sizeof(*process->leaks), read_leak, &list);
	if (r < 0)
		return r;
	process->leaks = list.elements;
	for (size_t i = 0; i < list.count; i++) {
		struct report_leak leak = process->leaks[i];

		suppress(in, &leak);
		if (leak.pattern)
			continue;
		process->leaks[process->leak_count++] = leak;
		sum->leaked_bytes = add_bounded(sum->leaked_bytes, leak.bytes);
		sum->leaked_blocks = add_bounded(sum->leaked_blocks, leak.blocks);
	}
	return 0;
}

/* Reads an entry of "suballocations". An older report has no trend. */
static int read_suballocation(const struct input *in, const json_t *object, void *entry)
{
	struct report_suballocations *ret = entry;
	const char *trend = json_string_value(json_object_get(object, "trend"));
	int r = read_leak(in, object, &ret->live);

	if (r == 0)
		r = read_text(in, object, "cache", &ret->live.cache);
	if (r == 0)
		r = read_text(in, object, "pattern", &ret->live.pattern);
	if (r == 0)
		suppress(in, &ret->live);
	if (r < 0 || !trend || strcmp(trend, "accumulating") != 0)
		return r;
	ret->trend = TREND_ACCUMULATING;
	r = read_number(in, object, "kept_bytes", &ret->kept_bytes);
	return r < 0 ? r : read_number(in, object, "kept_blocks", &ret->kept_blocks);
}

static int read_suballocations(const struct input *in, const json_t *object,
			       struct report_process *process)
{
	struct json_list list;
	int r = read_list(in, object, "suballocations", sizeof(*process->suballocations),
			  read_suballocation, &list);

	process->suballocations = list.elements;
	process->suballocation_count = list.count;
	process->has_suballocations = json_object_get(object, "suballocations") != NULL;
	return r;
}

/* Reads an entry of "holders". */
static int read_holder(const struct input *in, const json_t *object, void *holder)
{
	struct report_leak *ret = holder;
	int r = read_leak(in, object, ret);

	return r < 0 ? r : read_text(in, object, "cache", &ret->cache);
}

static int read_peak(const struct input *in, const json_t *object, struct report_peak *ret)
{
	struct json_list list;
	int r = read_number(in, object, "bytes", &ret->bytes);

	ret->device = small_integer(object, "device", -1);
	if (r == 0)
		r = read_list(in, object, "holders", sizeof(*ret->held.list), read_holder, &list);
	if (r < 0)
		return r;
	ret->held.list = list.elements;
	ret->held.count = list.count;
	return 0;
}

/* Reads the peaks. An older report does not have them. */
static int read_peaks(const struct input *in, const json_t *object, struct report_process *process)
{
	const json_t *others = json_object_get(object, "others");
	size_t count = json_array_size(others);
	int r;

	if (!object || json_is_null(object))
		return 0;
	if (!json_is_object(object) || (others && !json_is_array(others)))
		return bad(in, "peak");
	process->peaks = arena_alloc(in->arena, (count + 1) * sizeof(*process->peaks));
	if (!process->peaks)
		return no_memory(in);
	r = read_peak(in, object, &process->peaks[process->peak_count++]);
	for (size_t i = 0; r == 0 && i < count; i++)
		r = read_peak(in, json_array_get(others, i),
			      &process->peaks[process->peak_count++]);
	return r;
}

/* Reads an entry of "objects". Its kind lacks the "object/" of the ledger, except OpenCL's kinds.
 * An older report has no fingerprints of objects. */
static int read_object(const struct input *in, const json_t *object, void *leak)
{
	struct report_leak *ret = leak;
	int r = read_call(in, object, ret);

	if (r == 0)
		r = read_text(in, object, "pattern", &ret->pattern);
	if (r == 0)
		r = read_number(in, object, "count", &ret->blocks);
	if (r < 0)
		return r;
	ret->is_object = true;
	ret->fingerprint = hex_of(object, "fingerprint");
	suppress(in, ret);
	if (strncmp(ret->kind, LEDGER_KIND_OBJECT, strlen(LEDGER_KIND_OBJECT)) == 0)
		return 0;
	ret->kind = arena_printf(in->arena, LEDGER_KIND_OBJECT "%s", ret->kind);
	return ret->kind ? 0 : no_memory(in);
}

static int read_objects(const struct input *in, const json_t *object,
			struct report_process *process)
{
	struct json_list list;
	int r = read_list(in, object, "objects", sizeof(*process->objects), read_object, &list);

	process->objects = list.elements;
	process->object_count = list.count;
	return r;
}

static int read_process(struct input *in, const json_t *object, struct report_process *process)
{
	const json_t *who = json_object_get(object, "process");
	const char *slash;
	int r = read_text(in, who, "exe", &process->exe);

	if (r == 0)
		r = read_text(in, who, "host", &process->host);
	if (r == 0)
		r = read_number(in, json_object_get(object, "summary"), "errors",
				&process->summary.errors);
	process->pid = small_integer(who, "pid", 0);
	process->rank = small_integer(who, "rank", -1);
	process->ranked = process->rank >= 0;
	slash = process->exe ? strrchr(process->exe, '/') : NULL;
	process->program = slash && slash[1] ? slash + 1 : process->exe ? process->exe : "?";
	process->ledger = in->name;
	if (r == 0)
		r = read_leaks(in, object, process);
	if (r == 0)
		r = read_suballocations(in, object, process);
	if (r == 0)
		r = read_objects(in, object, process);
	return r < 0 ? r : read_peaks(in, json_object_get(object, "peak"), process);
}

static int add_process(struct input *in, const json_t *object, struct report *report)
{
	struct report_process *process = calloc(1, sizeof(*process));
	int r;

	if (!process || !(process->arena = calloc(1, sizeof(*process->arena)))) {
		free(process);
		return no_memory(in);
	}
	in->arena = process->arena;
	r = read_process(in, object, process);
	if (r == 0 && report_add_process(report, process) == 0)
		return 0;
	if (r == 0)
		return no_memory(in);
	report_process_destroy(process);
	return r;
}

static int add_all(struct input *in, const json_t *root, struct report *report)
{
	const char *schema = json_string_value(json_object_get(root, "schema"));
	const json_t *list = json_object_get(root, "processes");
	int r = 0;

	if (!schema || strcmp(schema, SCHEMA) != 0)
		return bad(in, "its schema is not " SCHEMA);
	if (!list)
		return add_process(in, root, report);
	if (!json_is_array(list))
		return bad(in, "processes");
	for (size_t i = 0; i < json_array_size(list) && r == 0; i++)
		r = add_process(in, json_array_get(list, i), report);
	return r;
}

static int add_root(struct input *in, json_t *root, const json_error_t *why, struct report *report)
{
	int r;

	if (!root) {
		snprintf(in->error, in->error_size, "%s:%d: %s", in->name,
			 why->line > 0 ? why->line : 1, why->text);
		return -EBADMSG;
	}
	r = add_all(in, root, report);
	json_decref(root);
	return r;
}

int report_parse_json(const char *text, size_t length, const char *name, struct report *report,
		      char *error, size_t error_size)
{
	struct input in = { name, error, error_size, NULL, report->suppressions };
	json_error_t why;

	return add_root(&in, json_loadb(text, length, 0, &why), &why, report);
}

int report_read_json(const char *path, struct report *report, char *error, size_t error_size)
{
	struct input in = { path, error, error_size, NULL, report->suppressions };
	json_error_t why;

	return add_root(&in, json_load_file(path, 0, &why), &why, report);
}
