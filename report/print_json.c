/* SPDX-License-Identifier: MIT
 *
 * Builds the JSON report as a tree of jansson, which keeps keys in the order in which they
 * were set. A value that could not be made is NULL all the way up, so that only the end
 * has to look.
 */
#include "print_json.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "escape.h"
#include "json_coverage.h"
#include "model.h"
#include "suppress.h"

#define SCHEMA "gpuleak-report/1"

/* Sets KEY to VALUE, which it takes over. Without either, *OBJECT becomes NULL. */
static void set(json_t **object, const char *key, json_t *value)
{
	if (*object && value && json_object_set_new_nocheck(*object, key, value) == 0)
		return;
	if (!*object)
		json_decref(value);
	json_decref(*object);
	*object = NULL;
}

static void append(json_t **array, json_t *value)
{
	if (*array && value && json_array_append_new(*array, value) == 0)
		return;
	if (!*array)
		json_decref(value);
	json_decref(*array);
	*array = NULL;
}

static json_t *number(uint64_t value)
{
	return json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value);
}

static json_t *text(const char *value)
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

static json_t *address(uint64_t value)
{
	char hex[24];

	snprintf(hex, sizeof(hex), "0x%" PRIx64, value);
	return json_string(hex);
}

static json_t *frame_json(const struct report_frame *frame)
{
	json_t *ret = json_object();

	set(&ret, "function", text(frame->function));
	set(&ret, "file", text(frame->file));
	set(&ret, "line", number(frame->line));
	set(&ret, "module", text(frame->module));
	set(&ret, "offset", address(frame->offset));
	return ret;
}

static json_t *stack_json(const struct report_stack *stack)
{
	json_t *ret = json_array();

	for (size_t i = 0; i < stack->count && ret; i++)
		append(&ret, frame_json(&stack->frames[i]));
	return ret;
}

static json_t *leak_json(const struct report_leak *leak)
{
	json_t *ret = json_object();

	set(&ret, "api", text(leak->api));
	set(&ret, "kind", text(leak->kind));
	set(&ret, "device", json_integer(leak->device));
	set(&ret, "bytes", number(leak->bytes));
	set(&ret, "blocks", number(leak->blocks));
	set(&ret, "stack", stack_json(leak->stack));
	if (leak->pattern)
		set(&ret, "pattern", text(leak->pattern));
	return ret;
}

static json_t *leaks_json(const struct report_leak *leaks, size_t count)
{
	json_t *ret = json_array();

	for (size_t i = 0; i < count && ret; i++)
		append(&ret, leak_json(&leaks[i]));
	return ret;
}

static int is_known(const struct report_event *event)
{
	return event->api || event->stack->count;
}

static json_t *allocated_json(const struct report_event *event)
{
	json_t *ret = json_object();

	set(&ret, "api", text(event->api));
	set(&ret, "bytes", number(event->bytes));
	set(&ret, "stack", stack_json(event->stack));
	return ret;
}

static json_t *freed_json(const struct report_event *event)
{
	json_t *ret = json_object();

	set(&ret, "api", text(event->api));
	set(&ret, "stack", stack_json(event->stack));
	return ret;
}

static json_t *error_json(const struct report_error *error)
{
	json_t *ret = json_object(), *earlier;

	set(&ret, "type", text(error->type));
	set(&ret, "api", text(error->api));
	set(&ret, "address", address(error->address));
	set(&ret, "stack", stack_json(error->stack));
	set(&ret, "allocated",
	    is_known(&error->allocated) ? allocated_json(&error->allocated) : json_null());
	set(&ret, "freed", is_known(&error->freed) ? freed_json(&error->freed) : json_null());
	if (is_known(&error->earlier_freed)) {
		earlier = json_object();
		set(&earlier, "allocated", allocated_json(&error->earlier_allocated));
		set(&earlier, "freed", freed_json(&error->earlier_freed));
		set(&ret, "earlier", earlier);
		set(&ret, "culprit_candidate", json_string("freed"));
	}
	set(&ret, "result",
	    error->result == REPORT_NO_ANSWER ? json_null() : json_integer(error->result));
	if (error->block_address)
		set(&ret, "block_address", address(error->block_address));
	return ret;
}

static json_t *errors_json(const struct report_process *process)
{
	json_t *ret = json_array();

	for (size_t i = 0; i < process->error_count && ret; i++)
		append(&ret, error_json(&process->errors[i]));
	return ret;
}

static json_t *notes_json(const char *const *notes, size_t count)
{
	json_t *ret = json_array();

	for (size_t i = 0; i < count && ret; i++)
		append(&ret, text(notes[i]));
	return ret;
}

static json_t *summary_json(const struct report_summary *sum)
{
	json_t *ret = json_object();

	set(&ret, "leaked_bytes", number(sum->leaked_bytes));
	set(&ret, "leaked_blocks", number(sum->leaked_blocks));
	set(&ret, "suppressed_bytes", number(sum->suppressed_bytes));
	set(&ret, "suppressed_blocks", number(sum->suppressed_blocks));
	set(&ret, "errors", number(sum->errors));
	set(&ret, "allocated_bytes", number(sum->allocated_bytes));
	set(&ret, "allocated_blocks", number(sum->allocated_blocks));
	set(&ret, "freed_blocks", number(sum->freed_blocks));
	set(&ret, "peak_bytes", number(sum->peak_bytes));
	set(&ret, "with_context_blocks", number(sum->with_context_blocks));
	set(&ret, "with_context_bytes", number(sum->with_context_bytes));
	set(&ret, "late_blocks", number(sum->late_blocks));
	return ret;
}

static json_t *identity_json(const struct report_process *process)
{
	json_t *ret = json_object(), *command = json_array();

	for (size_t i = 0; i < process->command_count && command; i++)
		append(&command, text(process->command[i]));
	set(&ret, "pid", json_integer(process->pid));
	set(&ret, "command", command);
	set(&ret, "ended", json_string(report_ended_word(process->ended)));
	set(&ret, "status", json_integer(process->status));
	set(&ret, "host", text(process->host));
	set(&ret, "exe", text(process->exe));
	return ret;
}

/* Sets the keys of PROCESS in *OBJECT. */
static void set_process(json_t **object, const struct report_process *process)
{
	set(object, "process", identity_json(process));
	set(object, "summary", summary_json(&process->summary));
	set(object, "leaks", leaks_json(process->leaks, process->leak_count));
	set(object, "errors", errors_json(process));
	set(object, "suppressed", leaks_json(process->suppressed, process->suppressed_count));
	set(object, "coverage", json_coverage(&process->coverage));
	set(object, "notes", notes_json(process->notes, process->note_count));
}

static json_t *suppressions_json(const struct suppressions *suppressions)
{
	json_t *ret = json_array();

	for (size_t i = 0; i < suppressions_size(suppressions) && ret; i++) {
		struct suppression_use use = suppressions_use(suppressions, i);
		json_t *item = json_object();

		set(&item, "pattern", text(use.pattern));
		set(&item, "blocks", number(use.blocks));
		set(&item, "bytes", number(use.bytes));
		append(&ret, item);
	}
	return ret;
}

/* One process: its notes and the report's own are one list. */
static void set_only_process(json_t **object, const struct report *report)
{
	json_t *notes;

	set_process(object, report->processes[0]);
	notes = json_object_get(*object, "notes");
	for (size_t i = 0; i < report->note_count && *object; i++)
		if (json_array_append_new(notes, text(report->notes[i])) < 0)
			set(object, "notes", NULL);
}

static void set_processes(json_t **object, const struct report *report)
{
	json_t *list = json_array();

	for (size_t i = 0; i < report->count && list; i++) {
		json_t *item = json_object();

		set_process(&item, report->processes[i]);
		append(&list, item);
	}
	set(object, "processes", list);
	set(object, "summary", summary_json(&report->summary));
	set(object, "notes",
	    notes_json((const char *const *)report->notes, report->note_count));
}

int print_json(const struct report *report, FILE *out)
{
	json_t *root = json_object();
	int r = -ENOMEM;

	set(&root, "schema", json_string(SCHEMA));
	if (report->count == 1)
		set_only_process(&root, report);
	else
		set_processes(&root, report);
	set(&root, "suppressions", suppressions_json(report->suppressions));
	if (root) {
		r = json_dumpf(root, out, JSON_INDENT(2)) == 0 ? 0 : -EIO;
		if (fputc('\n', out) == EOF)
			r = -EIO;
	}
	json_decref(root);
	return r;
}
