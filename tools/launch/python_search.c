/* SPDX-License-Identifier: MIT
 *
 * Puts gpuleak's module on the path of Python programs. Must not change anything else for them.
 */
#include "tools/launch/python_search.h"

#include "report/model/model.h"
#include "report/model/model_suballocations.h"
#include "tools/launch/library.h"
#include "tools/launch/run_variables.h"
#include "tools/launch/system.h"

void python_search_start(struct python_search *search)
{
	char error[PATH_MAX * 2];

	if (library_find_module(search->module, sizeof(search->module), error, sizeof(error)) ==
	    0)
		return;
	search->module[0] = '\0';
	print_error("--keepers: %s", error);
}

void python_search_prepare(const struct python_search *search)
{
	if (search->module[0])
		run_variables_put_once("PYTHONPATH", search->module, ":");
}

/* Returns true if memory accumulates in PROCESS, and nothing was found that keeps memory. */
static bool misses_keepers(const struct report_process *process)
{
	bool accumulates = false;

	for (size_t i = 0; i < process->suballocation_count; i++) {
		if (process->suballocations[i].live.keepers)
			return false;
		accumulates |= report_accumulates(&process->suballocations[i]);
	}
	for (size_t i = 0; i < process->leak_count; i++)
		if (process->leaks[i].keepers)
			return false;
	return accumulates;
}

void python_search_report(const struct python_search *search, struct report *report)
{
	char text[400];

	for (size_t i = 0; search->module[0] && i < report->count; i++) {
		if (!misses_keepers(report->processes[i]))
			continue;
		snprintf(text, sizeof(text),
			 "--keepers found nothing in pid %d: no search ran while the accumulated "
			 "memory was in use, or Python did not load gpuleak's sitecustomize.py "
			 "(python -I, -E or -S, or PYTHONPATH was changed), or the program "
			 "imported no framework that gpuleak knows, or its Python is free-threaded",
			 report->processes[i]->pid);
		report_add_remark(report, text);
	}
}
