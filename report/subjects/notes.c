/* SPDX-License-Identifier: MIT
 *
 * Sentences about data that was not recorded, cannot be read, or is unreliable.
 */
#include "report/subjects/subject.h"

#include "report/describe/json_helpers.h"
#include "report/model/model.h"
#include "report/subjects/subject_words.h"
#include "report/util/escape.h"

void describe_notes(FILE *out, const char *const *notes, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		fputs("note: ", out);
		print_escaped(out, notes[i]);
		fputc('\n', out);
	}
}

static void print_details(FILE *out, const struct subject_view *view)
{
	const struct report_process *process = view->process;

	describe_outside(out, "note: ", process);
	describe_notes(out, process->notes, process->note_count);
}

static void add_json(json_t *object, const struct subject_view *view)
{
	const struct report_process *process = view->process;

	json_set(object, "notes", JSON_LIST(process->notes, process->note_count, json_text_at));
}

const struct subject subject_notes = { .details = print_details, .json = add_json };
