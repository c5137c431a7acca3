/* SPDX-License-Identifier: MIT
 *
 * Makes the sentences. Reads no ledger and no process.
 */
#include "tools/unrecorded.h"

#include "report/model/model.h"
#include "report/util/number.h"
#include "tools/flags.h"
#include "tools/launch/system.h"
#include "tools/ledgers/lost.h"
#include "tools/session.h"

#define SENTENCE_MAX 512

static bool was_found(const struct descendants *descendants, const struct descendant *process)
{
	for (size_t i = 0; i < descendants->found_count; i++)
		if (descendants->found[i].pid == process->pid &&
		    descendants->found[i].start_ticks == process->start_ticks)
			return true;
	return false;
}

/* Returns true if PROCESS has a ledger, and the gate fails because that is not complete. */
static bool is_reported(const struct ledger_list *list, const struct descendant *process)
{
	if (gate_wanted() && !gate_judges_leaks())
		return false;
	for (size_t i = 0; i < list->count; i++)
		if (list->files[i].pid == process->pid &&
		    list->files[i].start_ticks == process->start_ticks)
			return true;
	return false;
}

void unrecorded_find(const struct descendants *descendants, const struct ledger_list *list,
		     void (*found)(void *data, const char *sentence), void *data)
{
	struct descendant *running;
	const size_t running_count = descendants_running(descendants, &running);
	char sentence[SENTENCE_MAX];

	EACH_ITEM(descendants->found, descendants->found_count, process) {
		snprintf(sentence, sizeof(sentence), REPORT_NOT_COMPLETE "%s (pid %d): it has "
			 "loaded %s without gpuleak; %slet it inherit LD_PRELOAD and GPULEAK_*",
			 process->name, process->pid, process->driver,
			 opt_values.follow == OPTION_SWITCH_OFF ? "use --follow on, or " : "");
		found(data, sentence);
	}
	for (size_t i = 0; i < running_count; i++) {
		if (!running[i].driver[0] || was_found(descendants, &running[i]) ||
		    is_reported(list, &running[i]))
			continue;
		snprintf(sentence, sizeof(sentence),
			 REPORT_NOT_COMPLETE "%s (pid %d): it still runs and "
			 "has loaded %s; let the program wait for it",
			 running[i].name, running[i].pid, running[i].driver);
		found(data, sentence);
	}
	free(running);
}

void unrecorded_print_count(const struct descendants *descendants, const struct roster *roster)
{
	const long count = roster ? lost_not_loaded(roster) - descendants->looked : 0;

	if (count > 0)
		print_error("not looked at: %ld program%s that ran without gpuleak (ended within "
			    "0.1 s, set-user-ID, or with namespaces of its own)", count,
			    plural((uint64_t)count));
}
