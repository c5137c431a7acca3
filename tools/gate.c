/* SPDX-License-Identifier: MIT
 *
 * Loads the files of the gate's options. Writes a baseline only from a complete report, because a
 * baseline from an incomplete one would lack the leaks that were not recorded.
 */
#include "tools/gate.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "report/util/number.h"
#include "report/gate/baseline.h"
#include "report/gate/gate_rules.h"
#include "report/util/escape.h"
#include "tools/flags.h"
#include "report/gate/judge.h"
#include "report/model/model.h"
#include "report/util/output.h"
#include "report/util/text_buffer.h"
#include "report/analyze/leak_totals.h"

#define ERROR_SIZE 8192 /* for a path and a sentence */

static bool one_was_given(uint64_t options)
{
	for (int id = 0; id < OPTION_COUNT; id++)
		if ((options & OPTION_BIT(id)) && opt_text[id] && *opt_text[id])
			return true;
	return false;
}

bool gate_wanted(void)
{
	return opt_gate || opt_values.exitcode != 0 || opt_values.gate_accumulation != 0 ||
	       one_was_given(OPTIONS_OF_GATE);
}

bool gate_judges_leaks(void)
{
	return opt_gate || opt_values.gate_accumulation != 0 ||
	       one_was_given(OPTIONS_OF_GATE & ~OPTION_BIT(OPTION_MAX_GROWTH));
}

static int load_baseline(struct gate *gate, char *error)
{
	const char *path = opt_values.baseline;

	if (!*path && opt_update_baseline) {
		snprintf(error, ERROR_SIZE, "--update-baseline needs --baseline FILE");
		return -EINVAL;
	}
	if (!*path)
		return 0;
	if (opt_update_baseline && output_check(path, "baseline", error, ERROR_SIZE) < 0)
		return -EINVAL;
	if (opt_update_baseline && access(path, F_OK) < 0 && errno == ENOENT)
		return pattern_file_parse(&baseline_syntax, "", 0, path, &gate->baseline, error,
					  ERROR_SIZE);
	return pattern_file_parse(&baseline_syntax, NULL, 0, path, &gate->baseline, error,
				  ERROR_SIZE);
}

int gate_load(struct gate *gate, void (*failed)(void *data, const char *error), void *data)
{
	char error[ERROR_SIZE];
	int count = 0;

	if (load_baseline(gate, error) < 0 && ++count)
		failed(data, error);
	if (*opt_values.budgets &&
	    pattern_file_parse(&budget_syntax, NULL, 0, opt_values.budgets, &gate->budgets, error,
			       sizeof(error)) < 0 &&
	    ++count)
		failed(data, error);
	if (*opt_values.only_at &&
	    pattern_file_parse(&only_at_syntax, NULL, 0, opt_values.only_at, &gate->only_at, error,
			       sizeof(error)) < 0 &&
	    ++count)
		failed(data, error);
	return count;
}

void gate_input(const struct gate *gate, struct judge_input *input)
{
	input->max_leaked_bytes = (uint64_t)opt_values.max_leaked_bytes;
	input->baseline = gate->baseline;
	input->budgets = gate->budgets;
	input->only_at = gate->only_at;
}

static void print_difference(const struct pattern_file *before, const struct leak_totals *now)
{
	size_t new = 0, grew = 0, shrank = 0, kept = 0;

	for (size_t i = 0; i < now->count; i++) {
		const struct leak_total *entry = &now->entries[i];
		const struct pattern_rule *known = baseline_find(before, entry->fingerprint);

		if (!known)
			new++;
		else if (entry->bytes > known->bytes || entry->blocks > known->blocks)
			grew++;
		else if (entry->bytes < known->bytes || entry->blocks < known->blocks)
			shrank++;
		kept += known != NULL;
	}
	print_error("%s: %zu known leak%s now (%zu new, %zu grew, %zu shrank, %zu gone)",
		    before->name, now->count, plural(now->count), new, grew, shrank,
		    before->count - kept);
}

static int replace(struct gate *gate, const struct leak_totals *totals, char *error,
		   size_t error_size)
{
	struct pattern_file *made = NULL;
	struct text_buffer words;
	int r;

	text_buffer_begin(&words);
	baseline_write(totals, words.out);
	text_buffer_end(&words);
	r = pattern_file_parse(&baseline_syntax, words.text, words.length, gate->baseline->name,
			       &made, error, error_size);
	if (r == 0)
		r = output_write_file(gate->baseline->name, "baseline", words.text, words.length,
				      error, error_size);
	text_buffer_finish(&words);
	if (r < 0) {
		pattern_file_destroy(made);
		return r;
	}
	print_difference(gate->baseline, totals);
	pattern_file_destroy(gate->baseline);
	gate->baseline = made;
	return 0;
}

int gate_update_baseline(struct gate *gate, const struct report *report, char *error,
			 size_t error_size)
{
	const char *why = report->count == 0  ? "nothing was recorded"
			  : report->incomplete ? "not everything was recorded"
					       : NULL;
	struct leak_totals totals;
	int r;

	for (size_t i = 0; i < report->count && !why; i++)
		if (report->processes[i]->ended == REPORT_RUNNING)
			why = "a process still runs";
	if (!gate->baseline)
		why = "it could not be read";
	if (why) {
		snprintf(error, error_size, "%s: the baseline was not changed: %s",
			 opt_values.baseline, why);
		return -EINVAL;
	}
	totals = leak_totals_make(
		report, TOTALS_OF_LEAKS | TOTALS_OF_ACCUMULATIONS |
				(opt_values.gate_objects ? TOTALS_OF_OBJECTS : 0));
	r = replace(gate, &totals, error, error_size);
	leak_totals_finish(&totals);
	return r;
}

void gate_finish(struct gate *gate)
{
	pattern_file_destroy(gate->baseline);
	pattern_file_destroy(gate->budgets);
	pattern_file_destroy(gate->only_at);
	*gate = (struct gate){ 0 };
}
