/* SPDX-License-Identifier: MIT
 *
 * Looks at the frame that each leak and each error names as its place. A module whose file could
 * not be read has a note of its own and is left out here.
 */
#include "text_debuginfo.h"

#include <string.h>

#include "escape.h"
#include "model.h"

#define MODULES_MAX 8 /* that are named */

struct modules {
	const char *names[MODULES_MAX];
	size_t count;
	int more;
};

static void look_at(struct modules *modules, const struct report_stack *stack)
{
	const struct report_frame *frame = report_stack_culprit(stack);

	if (!frame || frame->role != FRAME_APPLICATION || !frame->no_debuginfo || frame->line)
		return;
	for (size_t i = 0; i < modules->count; i++)
		if (strcmp(modules->names[i], frame->module) == 0)
			return;
	if (modules->count == MODULES_MAX)
		modules->more = 1;
	else
		modules->names[modules->count++] = frame->module;
}

void text_debuginfo(FILE *out, const struct report *report)
{
	struct modules modules = { .count = 0 };

	for (size_t i = 0; i < report->count; i++) {
		const struct report_process *process = report->processes[i];

		for (size_t j = 0; j < process->leak_count; j++)
			look_at(&modules, process->leaks[j].stack);
		for (size_t j = 0; j < process->error_count; j++)
			look_at(&modules, process->errors[j].stack);
	}
	if (modules.count == 0)
		return;
	fputs("note: no debug information, so lines or functions are missing above: ", out);
	for (size_t i = 0; i < modules.count; i++) {
		fputs(i ? ", " : "", out);
		print_escaped(out, modules.names[i]);
	}
	fprintf(out, "%s; compile with -g and do not strip\n", modules.more ? " and others" : "");
}
