/* SPDX-License-Identifier: MIT
 *
 * Judges a report against a budget. Every rule is one function that adds a reason; no
 * reason to fail and at least one process to judge is the only way to pass.
 */
#include "judge.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "growth.h"
#include "model.h"
#include "number.h"

#define REASONS_MAX 100 /* of a thousand broken processes a hundred tell enough */

struct bench { /* where reasons are collected */
	struct judgement *judgement;
	int result;
};

__attribute__((format(printf, 2, 3)))
static void reason(struct bench *bench, const char *format, ...)
{
	struct judgement *j = bench->judgement;
	char **reasons;
	va_list args;
	int n;

	if (j->reason_count >= REASONS_MAX)
		return;
	reasons = reallocarray(j->reasons, j->reason_count + 1, sizeof(*reasons));
	if (!reasons) {
		bench->result = -ENOMEM;
		return;
	}
	j->reasons = reasons;
	va_start(args, format);
	n = vasprintf(&reasons[j->reason_count], format, args);
	va_end(args);
	if (n < 0)
		bench->result = -ENOMEM;
	else
		j->reason_count++;
}

/* "12,582,912 bytes (12.0 MiB)": the exact number is what a budget is set to. */
static const char *size_text(uint64_t bytes, char ret[2 * NUMBER_MAX + 16])
{
	char exact[NUMBER_MAX], short_form[NUMBER_MAX];

	if (bytes < 1024)
		return format_size(bytes, ret);
	snprintf(ret, 2 * NUMBER_MAX + 16, "%s bytes (%s)", format_number(bytes, exact),
		 format_size(bytes, short_form));
	return ret;
}

static void leaked(struct bench *bench, const struct report_summary *sum, uint64_t budget)
{
	char bytes[2 * NUMBER_MAX + 16], allowed[2 * NUMBER_MAX + 16];

	if (sum->leaked_blocks == 0)
		reason(bench, "nothing leaked");
	else
		reason(bench, "%" PRIu64 " block%s, %s leaked, %s allowed", sum->leaked_blocks,
		       sum->leaked_blocks == 1 ? "" : "s", size_text(sum->leaked_bytes, bytes),
		       budget ? size_text(budget, allowed) : "0");
}

static void judge_errors(struct bench *bench, const struct report_summary *sum)
{
	if (sum->errors > 0)
		reason(bench, "%" PRIu64 " wrong free%s", sum->errors, sum->errors == 1 ? "" : "s");
}

static void judge_leaks(struct bench *bench, const struct report_summary *sum, uint64_t budget)
{
	if (budget == 0 ? sum->leaked_blocks > 0 || sum->leaked_bytes > 0
			: sum->leaked_bytes > budget)
		leaked(bench, sum, budget);
}

/* A process that could not be judged does not pass. One that has allocated nothing can't grow. */
static void judge_growth(struct bench *bench, const struct report_process *p, uint64_t budget)
{
	const struct report_growth *growth = p->growth;
	uint64_t steps = growth ? growth->step_count : 0;
	char grown[2 * NUMBER_MAX + 16], allowed[2 * NUMBER_MAX + 16];

	if (!growth && p->summary.allocated_blocks == 0)
		return;
	if (steps < GROWTH_STEPS_MIN)
		reason(bench,
		       "process %d (%s) marked %" PRIu64 " step%s: growth is judged from %u on",
		       p->pid, p->program, steps, steps == 1 ? "" : "s", GROWTH_STEPS_MIN);
	if (growth && growth->lost)
		reason(bench, "process %d (%s): not every place found room in the ledger for its "
		       "growth", p->pid, p->program);
	for (size_t i = 0; growth && i < growth->suspect_count; i++) {
		const struct report_suspect *suspect = &growth->suspects[i];
		const struct report_frame *frame = report_stack_culprit(suspect->stack);

		if (budget && suspect->bytes_per_step <= budget)
			continue;
		reason(bench, "%s in process %d (%s) grows by %s per step, %s allowed",
		       frame && frame->function ? frame->function : suspect->api, p->pid,
		       p->program, size_text(suspect->bytes_per_step, grown),
		       budget ? size_text(budget, allowed) : "0");
	}
}

static void judge_process(struct bench *bench, const struct judge_input *input,
			  const struct report_process *p)
{
	if (input->growth_wanted)
		judge_growth(bench, p, input->max_growth);
	if (p->ended == REPORT_RUNNING && !input->leaks_unwanted)
		reason(bench, "process %d (%s) still runs: what it holds may yet be freed or leak",
		       p->pid, p->program);
	if (!p->incomplete)
		return;
	if (p->note_count == 0)
		reason(bench, "process %d (%s) was not recorded completely", p->pid, p->program);
	for (size_t i = 0; i < p->note_count; i++)
		reason(bench, "process %d (%s) was not recorded completely: %s", p->pid,
		       p->program, p->notes[i]);
}

/* Troubles that the caller named in words are not named again as the report's. */
static void judge_whole(struct bench *bench, const struct judge_input *input)
{
	const struct report *report = input->report;
	int told = input->trouble_count > 0;

	for (size_t i = 0; i < input->trouble_count; i++)
		reason(bench, "%s", input->troubles[i]);
	for (size_t i = 0; i < report->count; i++) {
		judge_process(bench, input, report->processes[i]);
		told |= report->processes[i]->incomplete;
	}
	if (report->incomplete && !told)
		reason(bench, "not everything could be read: the report says what is missing");
}

int judge(const struct judge_input *input, struct judgement *ret)
{
	struct bench bench = { ret, 0 };
	const struct report_summary *sum = &input->report->summary;

	*ret = (struct judgement){ .verdict = JUDGE_FAILED };
	judge_errors(&bench, sum);
	if (!input->leaks_unwanted)
		judge_leaks(&bench, sum, input->max_leaked_bytes);
	judge_whole(&bench, input);
	if (ret->reason_count > 0 || bench.result < 0)
		return bench.result;
	if (input->report->count == 0) {
		ret->verdict = JUDGE_NOTHING;
		reason(&bench, "no ledger was found: no GPU call was seen");
	} else {
		ret->verdict = JUDGE_CLEAN;
		if (!input->leaks_unwanted)
			leaked(&bench, sum, input->max_leaked_bytes);
		if (input->growth_wanted)
			reason(&bench, "nothing keeps growing beyond what is allowed");
	}
	if (bench.result < 0 && ret->verdict == JUDGE_CLEAN)
		ret->verdict = JUDGE_FAILED;
	return bench.result;
}

const char *judge_prefix(enum judge_verdict verdict)
{
	switch (verdict) {
	case JUDGE_CLEAN:
		return "gate passed: ";
	case JUDGE_FAILED:
		return "gate failed: ";
	case JUDGE_NOTHING:
		return "gate has nothing to judge: ";
	}
	return "";
}

void judgement_finish(struct judgement *judgement)
{
	for (size_t i = 0; i < judgement->reason_count; i++)
		free(judgement->reasons[i]);
	free(judgement->reasons);
	*judgement = (struct judgement){ .verdict = JUDGE_FAILED };
}
