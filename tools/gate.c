/* SPDX-License-Identifier: MIT
 *
 * Loads the files of the gate's options, and runs the gate. Writes a baseline only from a complete
 * report, because a baseline from an incomplete one would lack the leaks that were not recorded.
 */
#include "tools/session.h"

#include "report/analyze/ipc_match.h"
#include "report/analyze/leak_totals.h"
#include "report/gate/baseline.h"
#include "report/gate/gate_rules.h"
#include "report/gate/judge.h"
#include "report/model/model.h"
#include "report/util/number.h"
#include "report/util/output.h"
#include "tools/flags.h"
#include "tools/launch/system.h"

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
	       opt_values.gate_objects != 0 || one_was_given(OPTIONS_OF_GATE);
}

bool gate_judges_leaks(void)
{
	return opt_gate || opt_values.gate_accumulation != 0 || opt_values.gate_objects != 0 ||
	       one_was_given(OPTIONS_OF_GATE & ~OPTION_BIT(OPTION_MAX_GROWTH));
}

static void file_failed(struct session *session, const char *error)
{
	print_error("%s", error);
	session_trouble(session, "%s", error);
}

/* Loads the file at PATH ("": none). */
static int load(struct session *session, const struct pattern_syntax *syntax, const char *path,
		struct pattern_file **ret)
{
	char error[ERROR_SIZE];
	int r = *path ? pattern_file_parse(syntax, NULL, 0, path, ret, error, sizeof(error)) : 0;

	if (r < 0)
		file_failed(session, error);
	return r;
}

static int load_baseline(struct session *session)
{
	const char *path = opt_values.baseline;
	char error[ERROR_SIZE] = "--update-baseline needs --baseline FILE";

	if (opt_update_baseline &&
	    (!*path || output_check(path, "baseline", error, sizeof(error)) < 0)) {
		file_failed(session, error);
		return -EINVAL;
	}
	if (opt_update_baseline && access(path, F_OK) < 0 && errno == ENOENT)
		return pattern_file_parse(&baseline_syntax, "", 0, path, &session->baseline, error,
					  sizeof(error));
	return load(session, &baseline_syntax, path, &session->baseline);
}

int session_gate_files(struct session *session)
{
	int r = load_baseline(session);

	r |= load(session, &budget_syntax, opt_values.budgets, &session->budgets);
	r |= load(session, &only_at_syntax, opt_values.only_at, &session->only_at);
	return r ? -EINVAL : 0;
}

static void print_difference(const struct pattern_file *before, const struct leak_totals *now)
{
	size_t new = 0, grew = 0, shrank = 0, kept = 0;

	EACH_ITEM(now->entries, now->count, entry) {
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

/* Returns what --update-baseline writes, by the fingerprints that the baseline KNOWN has. */
static struct leak_totals totals_by(const struct report *report, const struct pattern_file *known)
{
	return leak_totals_make_by(
		report,
		TOTALS_OF_LEAKS | TOTALS_OF_ACCUMULATIONS |
			(opt_values.gate_context_ends ? TOTALS_OF_CONTEXT_ENDS : 0) |
			(opt_values.gate_objects ? TOTALS_OF_OBJECTS : 0),
		baseline_key, known);
}

static int replace(struct session *session, char *error, size_t error_size)
{
	struct leak_totals known = totals_by(&session->report, session->baseline);
	struct leak_totals now = totals_by(&session->report, NULL);
	const char *path = session->baseline->name;
	struct pattern_file *made = NULL;
	FREE_AT_END char *words = PRINTED(to, baseline_write(&now, to));
	int r = pattern_file_parse(&baseline_syntax, words, strlen(words), path, &made, error,
				   error_size);

	if (r == 0)
		r = output_write_file(path, "baseline", words, strlen(words), error, error_size);
	if (r == 0) {
		print_difference(session->baseline, &known);
		pattern_file_destroy(session->baseline);
		session->baseline = made;
	} else {
		pattern_file_destroy(made);
	}
	leak_totals_finish(&known);
	leak_totals_finish(&now);
	return r;
}

/* Writes the leaks of the report to the file of --baseline, replaces the file only when it is
 * complete, and prints the changes. SESSION uses the new baseline. */
static void update_baseline(struct session *session)
{
	const struct report *report = &session->report;
	const char *why = report->count == 0  ? "nothing was recorded"
			  : report->incomplete ? "not everything was recorded"
					       : NULL;
	char error[ERROR_SIZE];

	for (size_t i = 0; i < report->count && !why; i++)
		if (report->processes[i]->ended == REPORT_RUNNING)
			why = "a process still runs";
	if (!session->baseline)
		why = "it could not be read";
	if (why)
		snprintf(error, sizeof(error), "%s: the baseline was not changed: %s",
			 opt_values.baseline, why);
	if (why || replace(session, error, sizeof(error)) < 0)
		file_failed(session, error);
}

enum judge_verdict session_judge(struct session *session)
{
	struct judge_input input;

	ipc_match(&session->report);
	if (opt_update_baseline)
		update_baseline(session);
	input = (struct judge_input){
		.report = &session->report,
		.max_leaked_bytes = (uint64_t)opt_values.max_leaked_bytes,
		.baseline = session->baseline,
		.budgets = session->budgets,
		.only_at = session->only_at,
		.count_caches = (int)opt_values.gate_caches,
		.count_deferred = (int)opt_values.gate_held,
		.count_accumulation = opt_values.gate_accumulation != 0,
		.count_context_ends = opt_values.gate_context_ends != 0,
		.count_objects = (int)opt_values.gate_objects,
		.growth_wanted = opt_text[OPTION_MAX_GROWTH] != NULL,
		.troubles = (const char *const *)session->troubles,
		.trouble_count = session->trouble_count,
	};
	if (input.growth_wanted)
		input.max_growth = (uint64_t)opt_values.max_growth;
	input.leaks_unwanted = input.growth_wanted && !gate_judges_leaks();
	judge(&input, &session->judgement);
	session->judged = true;
	return session->judgement.verdict;
}
