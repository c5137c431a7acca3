/* SPDX-License-Identifier: MIT
 *
 * Loops over the rows of subjects.def. There are few rows, so the text loops look for each place
 * in all of them.
 */
#include "report/subjects/subject.h"

#include <stddef.h>

#define PLACE_MAX 100u

static const struct subject_row {
	const struct subject *subject;
	unsigned int finding, details; /* places in the text report */
} rows[] = {
#define SUBJECT(name, finding, details) { &subject_##name, finding, details },
#include "report/subjects/subjects.def"
#undef SUBJECT
};

#define ROWS_END (rows + sizeof(rows) / sizeof(rows[0]))

void subjects_print_findings(FILE *out, const struct subject_view *view)
{
	for (unsigned int place = 1; place <= PLACE_MAX; place++)
		for (const struct subject_row *row = rows; row < ROWS_END; row++)
			if (row->finding == place)
				row->subject->finding(out, view);
}

void subjects_print_details(FILE *out, const struct subject_view *view)
{
	for (unsigned int place = 1; place <= PLACE_MAX; place++)
		for (const struct subject_row *row = rows; row < ROWS_END; row++)
			if (row->details == place)
				row->subject->details(out, view);
}

bool subjects_are_wrong(const struct report_process *process)
{
	for (const struct subject_row *row = rows; row < ROWS_END; row++)
		if (row->subject->is_wrong && row->subject->is_wrong(process))
			return true;
	return false;
}

void subjects_add_json(json_t *object, const struct subject_view *view)
{
	for (const struct subject_row *row = rows; row < ROWS_END; row++)
		if (row->subject->json)
			row->subject->json(object, view);
}
