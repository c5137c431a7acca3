/* SPDX-License-Identifier: MIT
 *
 * Builds the JSON report as a tree of jansson, which keeps the order of keys. If memory runs
 * out, a value is NULL, and so is every value that contains it. So only the final value is
 * checked.
 */
#include "report/format/json/print_json.h"

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>

#include "report/symbols/fingerprint.h"
#include "report/format/json/json_coverage.h"
#include "report/format/json/json_gate.h"
#include "report/format/json/json_growth.h"
#include "report/format/json/json_driver_memory.h"
#include "report/format/json/json_history.h"
#include "report/format/json/json_objects.h"
#include "report/format/json/json_helpers.h"
#include "report/format/json/json_pool.h"
#include "report/format/json/json_ranks.h"
#include "report/format/json/json_deferred.h"
#include "report/format/json/json_timeline.h"
#include "report/model/model.h"
#include "report/describe/result_names.h"
#include "report/suppress/suppress.h"

#define SCHEMA "gpuleak-report/1"

static json_t *leak_json(const struct report_leak *leak)
{
	char fingerprint[FINGERPRINT_TEXT];
	json_t *ret = json_object();

	json_set(&ret, "api", json_text(leak->api));
	json_set(&ret, "kind", json_text(leak->kind));
	json_set(&ret, "fingerprint", json_string(report_fingerprint_text(
		report_fingerprint(leak->api, leak->kind, leak->stack), fingerprint)));
	json_set(&ret, "device", json_integer(leak->device));
	json_set(&ret, "bytes", json_number(leak->bytes));
	json_set(&ret, "blocks", json_number(leak->blocks));
	json_set(&ret, "stack", json_stack(leak->stack));
	if (leak->history)
		json_set(&ret, "history", json_history(leak->history));
	if (leak->mapping) {
		json_set(&ret, "mapped", json_event(&leak->mapping->mapped));
		json_set(&ret, "released", json_event(&leak->mapping->released));
	}
	if (leak->pattern)
		json_set(&ret, "pattern", json_text(leak->pattern));
	if (leak->cache)
		json_set(&ret, "cache", json_text(leak->cache));
	if (leak->ignored)
		json_set(&ret, "ignored", json_true());
	return ret;
}

static json_t *leaks_json(const struct report_leak *leaks, size_t count)
{
	json_t *ret = json_array();

	for (size_t i = 0; i < count && ret; i++)
		json_append(&ret, leak_json(&leaks[i]));
	return ret;
}

static bool is_known(const struct report_event *event)
{
	return event->api || event->stack->count;
}

static json_t *allocated_json(const struct report_event *event)
{
	json_t *ret = json_object();

	json_set(&ret, "api", json_text(event->api));
	json_set(&ret, "bytes", json_number(event->bytes));
	json_set(&ret, "stack", json_stack(event->stack));
	return ret;
}

static json_t *freed_json(const struct report_event *event)
{
	json_t *ret = json_object();

	json_set(&ret, "api", json_text(event->api));
	json_set(&ret, "stack", json_stack(event->stack));
	return ret;
}

static json_t *error_json(const struct report_error *error)
{
	json_t *ret = json_object(), *earlier;

	json_set(&ret, "type", json_text(error->type));
	json_set(&ret, "api", json_text(error->api));
	json_set(&ret, "address", json_address(error->address));
	json_set(&ret, "stack", json_stack(error->stack));
	json_set(&ret, "allocated",
	    is_known(&error->allocated) ? allocated_json(&error->allocated) : json_null());
	json_set(&ret, "freed", is_known(&error->freed) ? freed_json(&error->freed) : json_null());
	if (is_known(&error->earlier_freed)) {
		earlier = json_object();
		json_set(&earlier, "allocated", allocated_json(&error->earlier_allocated));
		json_set(&earlier, "freed", freed_json(&error->earlier_freed));
		json_set(&ret, "earlier", earlier);
		json_set(&ret, "culprit_candidate", json_string("freed"));
	}
	json_set(&ret, "result",
	    error->result == REPORT_NO_ANSWER ? json_null() : json_integer(error->result));
	json_set(&ret, "result_name", json_text(result_name(error->api, error->result)));
	if (error->block_address)
		json_set(&ret, "block_address", json_address(error->block_address));
	if (error->other_range)
		json_set(&ret, "asked_bytes", json_number(error->asked_bytes));
	return ret;
}

static json_t *errors_json(const struct report_process *process)
{
	json_t *ret = json_array();

	for (size_t i = 0; i < process->error_count && ret; i++)
		json_append(&ret, error_json(&process->errors[i]));
	return ret;
}

static json_t *notes_json(const char *const *notes, size_t count)
{
	json_t *ret = json_array();

	for (size_t i = 0; i < count && ret; i++)
		json_append(&ret, json_text(notes[i]));
	return ret;
}

static json_t *summary_json(const struct report_summary *sum)
{
	json_t *ret = json_object();

	json_set(&ret, "leaked_bytes", json_number(sum->leaked_bytes));
	json_set(&ret, "leaked_blocks", json_number(sum->leaked_blocks));
	json_set(&ret, "suppressed_bytes", json_number(sum->suppressed_bytes));
	json_set(&ret, "suppressed_blocks", json_number(sum->suppressed_blocks));
	json_set(&ret, "cached_bytes", json_number(sum->cached_bytes));
	json_set(&ret, "cached_blocks", json_number(sum->cached_blocks));
	json_set(&ret, "errors", json_number(sum->errors));
	json_set(&ret, "allocated_bytes", json_number(sum->allocated_bytes));
	json_set(&ret, "allocated_blocks", json_number(sum->allocated_blocks));
	json_set(&ret, "freed_blocks", json_number(sum->freed_blocks));
	json_set(&ret, "peak_bytes", json_number(sum->peak_bytes));
	json_set(&ret, "with_context_blocks", json_number(sum->with_context_blocks));
	json_set(&ret, "with_context_bytes", json_number(sum->with_context_bytes));
	json_set(&ret, "late_blocks", json_number(sum->late_blocks));
	if (sum->left_out_blocks) {
		json_set(&ret, "left_out_bytes", json_number(sum->left_out_bytes));
		json_set(&ret, "left_out_blocks", json_number(sum->left_out_blocks));
	}
	if (sum->younger_blocks) {
		json_set(&ret, "younger_blocks", json_number(sum->younger_blocks));
		json_set(&ret, "younger_bytes", json_number(sum->younger_bytes));
	}
	return ret;
}

static json_t *identity_json(const struct report_process *process)
{
	json_t *ret = json_object(), *command = json_array();

	for (size_t i = 0; i < process->command_count && command; i++)
		json_append(&command, json_text(process->command[i]));
	json_set(&ret, "pid", json_integer(process->pid));
	json_set(&ret, "command", command);
	json_set(&ret, "ended", json_string(report_ended_word(process->ended)));
	json_set(&ret, "status", json_integer(process->status));
	json_set(&ret, "host", json_text(process->host));
	json_set(&ret, "exe", json_text(process->exe));
	if (process->ranked) {
		json_set(&ret, "rank", json_integer(process->rank));
		json_set(&ret, "ranks",
		    process->ranks ? json_integer(process->ranks) : json_null());
		json_set(&ret, "rank_variable", json_text(process->rank_variable));
	}
	return ret;
}

/* Sets the keys of PROCESS in *OBJECT. */
static void set_process(json_t **object, const struct report_process *process)
{
	json_set(object, "process", identity_json(process));
	json_set(object, "summary", summary_json(&process->summary));
	json_set(object, "leaks", leaks_json(process->leaks, process->leak_count));
	json_set(object, "errors", errors_json(process));
	json_set(object, "suppressed", leaks_json(process->suppressed, process->suppressed_count));
	json_set(object, "cached", leaks_json(process->cached, process->cached_count));
	json_set(object, "objects", json_objects(process));
	json_set(object, "released", json_deferred(&process->deferred));
	if (process->timeline.total.count)
		json_set(object, "timeline", json_timeline(process));
	if (json_driver_memory_known(process))
		json_set(object, "devices", json_driver_memory(process));
	if (process->growth)
		json_set(object, "growth", json_growth(process->growth));
	if (process->pools)
		json_set(object, "pool", json_pool(process->pools));
	json_set(object, "coverage", json_coverage(&process->coverage));
	json_set(object, "notes", notes_json(process->notes, process->note_count));
}

static void append_suppressions(json_t **list, const struct suppressions *suppressions,
				const char *source)
{
	for (size_t i = 0; i < suppressions_size(suppressions) && *list; i++) {
		struct suppression_use use = suppressions_use(suppressions, i);
		json_t *item = json_object();

		json_set(&item, "pattern", json_text(use.pattern));
		json_set(&item, "blocks", json_number(use.blocks));
		json_set(&item, "bytes", json_number(use.bytes));
		if (source)
			json_set(&item, "source", json_string(source));
		json_append(list, item);
	}
}

static json_t *suppressions_json(const struct report *report)
{
	json_t *ret = json_array();

	append_suppressions(&ret, report->suppressions, NULL);
	for (size_t i = 0; i < report->count; i++)
		append_suppressions(&ret, report->processes[i]->program_suppressions,
				    "__lsan_default_suppressions");
	return ret;
}

/* Writes a report with one process. The notes of the process and of the report form one list. */
static void set_only_process(json_t **object, const struct report *report)
{
	json_t *notes;

	set_process(object, report->processes[0]);
	notes = json_object_get(*object, "notes");
	for (size_t i = 0; i < report->note_count && *object; i++)
		if (json_array_append_new(notes, json_text(report->notes[i])) < 0)
			json_set(object, "notes", NULL);
}

static void set_processes(json_t **object, const struct report *report)
{
	json_t *list = json_array();

	for (size_t i = 0; i < report->count && list; i++) {
		json_t *item = json_object();

		set_process(&item, report->processes[i]);
		json_append(&list, item);
	}
	json_set(object, "processes", list);
	json_ranks(object, report);
	json_set(object, "summary", summary_json(&report->summary));
	json_set(object, "notes",
	    notes_json((const char *const *)report->notes, report->note_count));
}

json_t *json_report(const struct report *report, const struct judgement *judgement)
{
	json_t *root = json_object();

	json_set(&root, "schema", json_string(SCHEMA));
	if (report->count == 1)
		set_only_process(&root, report);
	else
		set_processes(&root, report);
	json_set(&root, "suppressions", suppressions_json(report));
	if (judgement)
		json_set(&root, "gate", json_gate(judgement));
	return root;
}

int print_json(const struct report *report, const struct judgement *judgement, FILE *out)
{
	return json_write(json_report(report, judgement), out);
}
