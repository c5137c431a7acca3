/* SPDX-License-Identifier: MIT
 *
 * Loops over the rows of subjects.def. There are few rows, so the loops look for each place in all
 * of them. Also the lists of a judgement, to which the subjects add.
 */
#include "report/subjects/common.h"

#include <stdarg.h>
#include <stdio.h>

#include "report/subjects/figures.h"
#include "report/subjects/judgement.h"

#define PLACE_MAX 100u

static const struct subject_row {
	const char *name;
	const struct subject *subject;
	unsigned int finding, details, metrics, judge; /* places */
} rows[] = {
#define SUBJECT(name, finding, details, metrics, judge) \
	{ #name, &subject_##name, finding, details, metrics, judge },
#include "report/subjects/subjects.def"
#undef SUBJECT
};

#define ROWS_END (rows + sizeof(rows) / sizeof(rows[0]))

/* ---- building ---- */

void subject_build(const struct subject *subject, struct builder *b)
{
	size_t number = 0;

	while (rows[number].subject != subject)
		number++;
	if (b->built >> number & 1)
		return;
	b->built |= (uint64_t)1 << number;
	if (subject->needs)
		subject_build(subject->needs, b);
	if (subject->build && (!subject->chunks || (subject->chunks & b->chunks)))
		subject->build(b);
}

struct report_process *report_process_build(const struct loaded_ledger *ledger,
					    struct symbolizer *symbolizer,
					    struct pattern_file *suppressions)
{
	struct builder b;

	build_start(&b, ledger, symbolizer);
	b.suppressions = suppressions;
	build_shared(&b);
	for (const struct subject_row *row = rows; row < ROWS_END; row++)
		subject_build(row->subject, &b);
	return b.process;
}

/* ---- formats ---- */

/* Returns the member of PROCESS that PART() names. */
static uintptr_t value_of(size_t part, const struct report_process *process)
{
	uintptr_t value;

	memcpy(&value, (const char *)process + part - 1, sizeof(value));
	return value;
}

bool subject_is_there(const struct subject *subject, const struct report_process *process)
{
	return !subject->only_if || value_of(subject->only_if, process);
}

void subjects_print_findings(FILE *out, const struct subject_view *view)
{
	for (unsigned int place = 1; place <= PLACE_MAX; place++)
		for (const struct subject_row *row = rows; row < ROWS_END; row++)
			if (row->finding == place && subject_is_there(row->subject, view->process))
				row->subject->finding(out, view);
}

void subjects_print_details(FILE *out, const struct subject_view *view)
{
	for (unsigned int place = 1; place <= PLACE_MAX; place++)
		for (const struct subject_row *row = rows; row < ROWS_END; row++)
			if (row->details == place && subject_is_there(row->subject, view->process))
				row->subject->details(out, view);
}

bool subjects_are_wrong(const struct report_process *process)
{
	for (const struct subject_row *row = rows; row < ROWS_END; row++)
		if (row->subject->wrong_if ? value_of(row->subject->wrong_if, process)
		    : row->subject->is_wrong && subject_is_there(row->subject, process) &&
			      row->subject->is_wrong(process))
			return true;
	return false;
}

static void add_list(json_t *object, const struct subject_list *list,
		     const struct subject_view *view)
{
	const void *items = (const void *)value_of(list->items, view->process);
	size_t count = value_of(list->count, view->process);

	json_set(object, list->key,
		 list->of ? json_list_of(items, count, list->item_bytes, list->of)
			  : json_list_for(view, items, count, list->item_bytes, list->of_view));
}

void subjects_add_json(json_t *object, const struct subject_view *view)
{
	for (const struct subject_row *row = rows; row < ROWS_END; row++) {
		const struct subject *subject = row->subject;

		if (!subject->has_keys_always && !subject_is_there(subject, view->process))
			continue;
		if (subject->list.key)
			add_list(object, &subject->list, view);
		if (subject->json)
			subject->json(object, view);
	}
}

json_t *subjects_page_figures(void)
{
	json_t *ret = json_object();

	for (const struct subject_row *row = rows; row < ROWS_END; row++)
		if (row->subject->figures)
			json_set(ret, row->name, figures_page_json(row->subject->figures));
	return ret;
}

void subjects_print_metrics(FILE *out, const struct report *report, const struct findings *findings)
{
	for (unsigned int place = 1; place <= PLACE_MAX; place++)
		for (const struct subject_row *row = rows; row < ROWS_END; row++) {
			if (row->metrics != place)
				continue;
			if (row->subject->figures)
				figures_print_metrics(out, report, row->subject->figures);
			if (row->subject->metrics)
				row->subject->metrics(out, report, findings);
		}
}

void subjects_judge(struct judgement *judgement, const struct judge_input *input,
		    const struct report_process *process)
{
	for (unsigned int place = 1; place <= PLACE_MAX; place++)
		for (const struct subject_row *row = rows; row < ROWS_END; row++)
			if (row->judge == place)
				row->subject->judge(judgement, input, process);
}

/* ---- judgements ---- */

#define SENTENCES_MAX 100 /* maximum number of sentences */

void judgement_add(char ***list, size_t *count, const char *format, ...)
{
	va_list args;

	if (*count >= SENTENCES_MAX)
		return;
	va_start(args, format);
	*LIST_ADD(*list, *count) = text_vformat(format, args);
	va_end(args);
}

const char *format_process(const struct report_process *process, char ret[FORMAT_PLACE_MAX])
{
	if (process->ranked)
		snprintf(ret, FORMAT_PLACE_MAX, "rank %d (process %d of %s on %s)", process->rank,
			 process->pid, process->program, process->host ? process->host : "?");
	else
		snprintf(ret, FORMAT_PLACE_MAX, "process %d (%s)", process->pid,
			 process->program);
	return ret;
}

bool judgement_fails(const struct judgement *judgement)
{
	return !judgement || judgement->verdict != JUDGE_CLEAN;
}

const char *judge_prefix(enum judge_verdict verdict)
{
	return verdict == JUDGE_CLEAN	 ? "gate passed: "
	       : verdict == JUDGE_FAILED ? "gate failed: "
					 : "gate has nothing to judge: ";
}

void judgement_finish(struct judgement *judgement)
{
	for (size_t i = 0; i < judgement->reason_count; i++)
		free(judgement->reasons[i]);
	for (size_t i = 0; i < judgement->note_count; i++)
		free(judgement->notes[i]);
	free(judgement->reasons);
	free(judgement->notes);
	*judgement = (struct judgement){ .verdict = JUDGE_FAILED };
}
