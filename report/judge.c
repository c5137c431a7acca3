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

/* What counts against the budget. */
struct loss {
	uint64_t blocks, bytes;
	const char *what; /* "leaked" */
};

static struct loss count_loss(const struct judge_input *input)
{
	const struct report_summary *sum = &input->report->summary;

	if (!input->count_caches || !sum->cached_blocks)
		return (struct loss){ sum->leaked_blocks, sum->leaked_bytes, "leaked" };
	return (struct loss){ add_bounded(sum->leaked_blocks, sum->cached_blocks),
			      add_bounded(sum->leaked_bytes, sum->cached_bytes),
			      sum->leaked_blocks ? "leaked or held by caches" : "held by caches" };
}

static void leaked(struct bench *bench, const struct judge_input *input)
{
	const struct report_summary *sum = &input->report->summary;
	char bytes[2 * NUMBER_MAX + 16], allowed[2 * NUMBER_MAX + 16];
	const struct loss loss = count_loss(input);

	if (loss.blocks)
		reason(bench, "%" PRIu64 " block%s, %s %s, %s allowed", loss.blocks,
		       loss.blocks == 1 ? "" : "s", size_text(loss.bytes, bytes), loss.what,
		       input->max_leaked_bytes ? size_text(input->max_leaked_bytes, allowed) : "0");
	else if (sum->cached_blocks)
		reason(bench, "nothing leaked; caches hold %s in %" PRIu64
		       " block%s, which do not count (--gate-caches 1 counts them)",
		       size_text(sum->cached_bytes, bytes), sum->cached_blocks,
		       sum->cached_blocks == 1 ? "" : "s");
	else
		reason(bench, "nothing leaked");
}

static void judge_errors(struct bench *bench, const struct report_summary *sum)
{
	if (sum->errors > 0)
		reason(bench, "%" PRIu64 " wrong free%s", sum->errors, sum->errors == 1 ? "" : "s");
}

static void judge_leaks(struct bench *bench, const struct judge_input *input)
{
	const struct loss loss = count_loss(input);

	if (input->max_leaked_bytes == 0 ? loss.blocks > 0 || loss.bytes > 0
					 : loss.bytes > input->max_leaked_bytes)
		leaked(bench, input);
}

static void judge_process(struct bench *bench, const struct report_process *p)
{
	if (p->ended == REPORT_RUNNING)
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
		judge_process(bench, report->processes[i]);
		told |= report->processes[i]->incomplete;
	}
	if (report->incomplete && !told)
		reason(bench, "not everything could be read: the report says what is missing");
}

int judge(const struct judge_input *input, struct judgement *ret)
{
	struct bench bench = { ret, 0 };

	*ret = (struct judgement){ .verdict = JUDGE_FAILED };
	judge_errors(&bench, &input->report->summary);
	judge_leaks(&bench, input);
	judge_whole(&bench, input);
	if (ret->reason_count > 0 || bench.result < 0)
		return bench.result;
	if (input->report->count == 0) {
		ret->verdict = JUDGE_NOTHING;
		reason(&bench, "no ledger was found: no GPU call was seen");
	} else {
		ret->verdict = JUDGE_CLEAN;
		leaked(&bench, input);
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
