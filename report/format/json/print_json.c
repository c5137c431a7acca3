/* SPDX-License-Identifier: MIT
 *
 * Builds the JSON report as a tree of jansson, which keeps the order of keys.
 */
#include "report/subjects/formats.h"

#include "ledger/kind_table.h"
#include "report/describe/json_helpers.h"
#include "report/format/json/json_report.h"
#include "report/gate/judge.h"
#include "report/subjects/subject.h"
#include "report/suppress/suppress.h"

#define SCHEMA "gpuleak-report/1"

static void append_suppressions(json_t *list, const struct pattern_file *suppressions,
				const char *source)
{
	for (size_t i = 0; i < suppressions_size(suppressions); i++) {
		const struct pattern_rule *use = &suppressions->rules[i];

		json_array_append_new(list, JSON_OBJECT(
			{ "pattern", json_text(use->pattern.text) },
			{ "blocks", json_number(use->blocks) },
			{ "bytes", json_number(use->bytes) },
			{ "source", JSON_IF(source, json_string(source)) }));
	}
}

static json_t *suppressions_json(const struct report *report)
{
	json_t *ret = json_array();

	append_suppressions(ret, report->suppressions, NULL);
	for (size_t i = 0; i < report->count; i++)
		append_suppressions(ret, report->processes[i]->program_suppressions,
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
static void add_notes(json_t *object, const struct report *report)
{
	json_t *notes = json_object_get(object, "notes");

	for (size_t i = 0; i < report->note_count; i++)
		json_array_append_new(notes, json_text(report->notes[i]));
	for (size_t i = 0; i < report->remark_count; i++)
		json_array_append_new(notes, json_text(report->remarks[i]));
}

static void add_process(json_t *object, const struct report_process *process, bool has_words)
{
	subjects_add_json(object, &(struct subject_view){ .process = process,
							  .has_words = has_words });
}

static json_t *processes_json(const struct report *report, bool has_words)
{
	json_t *ret = json_array();

	for (size_t i = 0; i < report->count; i++) {
		json_t *object = json_object();

		add_process(object, report->processes[i], has_words);
		if (has_words)
			json_add_words(object, report->processes[i]);
		json_array_append_new(ret, object);
	}
	return ret;
}

static json_t *kinds_json(void)
{
	json_t *ret = json_object();

	for (const struct kind *kind = kinds; kind->name[0]; kind++)
		json_set(ret, kind->name, json_string(kind->words));
	return ret;
}

json_t *json_gate(const struct judgement *judgement)
{
	return JSON_OBJECT(
		{ "status", json_integer(judgement->verdict) },
		{ "reasons", JSON_LIST(judgement->reasons, judgement->reason_count, json_text_at) },
		{ "notes", JSON_LIST(judgement->notes, judgement->note_count, json_text_at) });
}

json_t *json_report(const struct report *report, const struct judgement *judgement,
		    bool has_words)
{
	json_t *root = JSON_OBJECT({ "schema", json_string(SCHEMA) });

	if (report->count == 1)
		add_process(root, report->processes[0], has_words);
	else
		JSON_ADD(root,
			 { "processes", processes_json(report, has_words) },
			 { "ranks", json_ranks(report) },
			 { "summary", json_summary(&report->summary) },
			 { "notes", json_array() });
	add_notes(root, report);
	JSON_ADD(root,
		 { "suppressions", suppressions_json(report) },
		 { "bypassed_caches", JSON_IF(report->bypassed,
					      JSON_LIST(report->bypassed, report->bypassed_count,
							bypass_json)) },
		 { "gate", JSON_IF(judgement, json_gate(judgement)) },
		 { "kinds", JSON_IF(has_words, kinds_json()) },
		 { "figures", JSON_IF(has_words, subjects_page_figures()) });
	if (has_words && report->count == 1)
		json_add_words(root, report->processes[0]);
	json_set(root, "incomplete", JSON_IF(has_words, json_boolean(report->incomplete)));
	return root;
}

int print_json(const struct report *report, const struct judgement *judgement, FILE *out)
{
	return json_write(json_report(report, judgement, false), out);
}
