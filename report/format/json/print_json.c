/* SPDX-License-Identifier: MIT
 *
 * Builds the JSON report as a tree of jansson, which keeps the order of keys. If memory runs
 * out, a value is NULL, and so is every value that contains it. So only the final value is
 * checked.
 */
#include "report/format/json/print_json.h"

#include "report/format/json/json_gate.h"
#include "report/format/json/json_helpers.h"
#include "report/format/json/json_sections.h"
#include "report/model/model.h"
#include "report/model/model_bypass.h"
#include "report/suppress/suppress.h"

#define SCHEMA "gpuleak-report/1"

static void append_suppressions(json_t **list, const struct pattern_file *suppressions,
				const char *source)
{
	for (size_t i = 0; i < suppressions_size(suppressions) && *list; i++) {
		const struct pattern_rule *use = &suppressions->rules[i];

		json_append(list, JSON_OBJECT(
			{ "pattern", json_text(use->pattern.text) },
			{ "blocks", json_number(use->blocks) },
			{ "bytes", json_number(use->bytes) },
			{ "source", JSON_IF(source, json_string(source)) }));
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

static json_t *pid_json(const void *pid)
{
	return json_integer(*(const int *)pid);
}

static json_t *bypass_json(const void *item)
{
	const struct report_bypass *row = item;

	return JSON_OBJECT(
		{ "framework", json_text(row->framework) },
		{ "setting", json_text(row->setting) },
		{ "switched_off", json_boolean(row->switched_off) },
		{ "found", json_text(row->found) },
		{ "changes", json_text(row->changes) },
		{ "used_by", JSON_LIST(row->pids, row->pid_count, pid_json) });
}

/* Appends the report's notes and remarks to the key "notes". */
static void add_notes(json_t **object, const struct report *report)
{
	json_t *notes = json_object_get(*object, "notes");

	for (size_t i = 0; i < report->note_count && *object; i++)
		if (json_array_append_new(notes, json_text(report->notes[i])) < 0)
			json_set(object, "notes", NULL);
	for (size_t i = 0; i < report->remark_count && *object; i++)
		if (json_array_append_new(notes, json_text(report->remarks[i])) < 0)
			json_set(object, "notes", NULL);
}

static json_t *process_json(const void *item)
{
	json_t *ret = json_object();

	json_add_process(&ret, *(struct report_process *const *)item);
	return ret;
}

static void add_processes(json_t **object, const struct report *report)
{
	JSON_ADD(object,
		 { "processes", JSON_LIST(report->processes, report->count, process_json) },
		 { "ranks", json_ranks(report) },
		 { "summary", json_summary(&report->summary) },
		 { "notes", json_array() });
}

json_t *json_report(const struct report *report, const struct judgement *judgement)
{
	json_t *root = JSON_OBJECT({ "schema", json_string(SCHEMA) });

	if (report->count == 1)
		json_add_process(&root, report->processes[0]);
	else
		add_processes(&root, report);
	add_notes(&root, report);
	JSON_ADD(&root,
		 { "suppressions", suppressions_json(report) },
		 { "bypassed_caches", JSON_IF(report->bypassed,
					      JSON_LIST(report->bypassed, report->bypassed_count,
							bypass_json)) },
		 { "gate", JSON_IF(judgement, json_gate(judgement)) });
	return root;
}

int print_json(const struct report *report, const struct judgement *judgement, FILE *out)
{
	return json_write(json_report(report, judgement), out);
}
