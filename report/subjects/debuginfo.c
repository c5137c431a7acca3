/* SPDX-License-Identifier: MIT
 *
 * Checks two kinds of frames of each leak and error: the frame that the report shows, and frames
 * whose callers may be missing. Skips modules whose file could not be read, because the report
 * has another note about these.
 */
#include "report/subjects/subject_words.h"

#include <stdbool.h>
#include <string.h>

#include "report/util/escape.h"
#include "report/model/model.h"

#define MODULES_MAX 8 /* maximum number of modules in one line */

struct bare_modules {
	const char *names[MODULES_MAX];
	size_t count;
	bool more;
};

static void add_module(struct bare_modules *modules, const char *name)
{
	for (size_t i = 0; i < modules->count; i++)
		if (strcmp(modules->names[i], name) == 0)
			return;
	if (modules->count == MODULES_MAX)
		modules->more = true;
	else
		modules->names[modules->count++] = name;
}

static void look_for_lines(struct bare_modules *modules, const struct report_stack *stack)
{
	const struct report_frame *frame = report_stack_culprit(stack);

	if (frame && frame->role == FRAME_APPLICATION && frame->no_debuginfo && !frame->line)
		add_module(modules, frame->module);
}

/* Adds the modules of frames whose callers are missing: of the outermost frame if it has no unwind
 * table, and of any frame that the walk left without finding its caller. The thread start function
 * of the C library intentionally has no table, so it does not count. */
static void look_for_callers(struct bare_modules *modules, const struct report_stack *stack)
{
	for (size_t i = 0; i < stack->count; i++) {
		const struct report_frame *frame = &stack->frames[i];
		bool is_end = i + 1 == stack->count && !stack->cut;

		if (frame->role == FRAME_APPLICATION &&
		    (frame->no_frame_record || (is_end && frame->no_unwind_table)))
			add_module(modules, frame->module);
	}
}

static struct bare_modules look_at_all(const struct report *report,
				       void (*look)(struct bare_modules *,
						    const struct report_stack *))
{
	struct bare_modules modules = { .count = 0 };

	for (size_t i = 0; i < report->count; i++) {
		const struct report_process *process = report->processes[i];

		for (size_t j = 0; j < process->leak_count; j++)
			look(&modules, process->leaks[j].site->stack);
		for (size_t j = 0; j < process->error_count; j++)
			look(&modules, process->errors[j].stack);
	}
	return modules;
}

static void print_note(FILE *out, const struct bare_modules *modules, const char *what,
		       const char *remedy)
{
	if (modules->count == 0)
		return;
	fprintf(out, "note: %s: ", what);
	for (size_t i = 0; i < modules->count; i++) {
		fputs(i ? ", " : "", out);
		print_escaped(out, modules->names[i]);
	}
	fprintf(out, "%s; %s\n", modules->more ? " and others" : "", remedy);
}

void describe_missing_debuginfo(FILE *out, const struct report *report)
{
	struct bare_modules lines = look_at_all(report, look_for_lines);
	struct bare_modules ends = look_at_all(report, look_for_callers);

	print_note(out, &lines,
		   "lines or functions are missing above, because these modules have no debug "
		   "information",
		   "compile them with -g and do not strip them");
	print_note(out, &ends,
		   "callers are missing above, because these modules have no unwind tables",
		   "compile them with -fasynchronous-unwind-tables or -fno-omit-frame-pointer");
}
