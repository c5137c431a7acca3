/* SPDX-License-Identifier: MIT
 *
 * The lists of a judgement.
 */
#include "report/subjects/judgement.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "report/model/model.h"
#include "report/util/memory.h"

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
