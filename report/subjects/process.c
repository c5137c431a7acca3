/* SPDX-License-Identifier: MIT
 *
 * The process itself: its name, how it ended, and the sums of its report. The text report has the
 * sums in a line of their own if the first line is about something else.
 */
#include "report/subjects/subject.h"

#include "ledger/no_gpu.h"
#include "report/describe/describe_stack.h"
#include "report/describe/json_helpers.h"
#include "report/model/model.h"
#include "report/subjects/subject_words.h"
#include "report/util/number.h"
#include "report/util/text_buffer.h"

/* ---- text ---- */

static void print_fate(FILE *out, uint64_t blocks, const char *what)
{
	char number[NUMBER_MAX];

	if (blocks)
		fprintf(out, ", %s %s", format_number(blocks, number), what);
}

void describe_fates(FILE *out, const struct report_summary *sum,
		    struct report_process *const *processes, size_t count)
{
	uint64_t live = add_bounded(sum->leaked_blocks,
				    add_bounded(sum->suppressed_blocks, sum->cached_blocks));
	uint64_t known = add_bounded(add_bounded(sum->freed_blocks, live),
				     add_bounded(sum->with_context_blocks, sum->deferred_blocks));
	char number[NUMBER_MAX];

	known = add_bounded(known, add_bounded(sum->left_out_blocks, sum->younger_blocks));
	if (sum->freed_blocks == sum->allocated_blocks)
		fputs("all freed", out);
	else
		fprintf(out, "%s freed", format_number(sum->freed_blocks, number));
	if (sum->late_blocks)
		fprintf(out, " (%s of them after the driver had begun to shut down)",
			format_number(sum->late_blocks, number));
	print_fate(out, sum->with_context_blocks, "released with their context");
	print_fate(out, sum->deferred_blocks, "released but not freed");
	print_fate(out, sum->younger_blocks, "younger than --older");
	print_fate(out, sum->suppressed_blocks, "suppressed");
	describe_caches(out, processes, count);
	print_fate(out, sum->left_out_blocks, "not selected");
	if (known < sum->allocated_blocks)
		print_fate(out, sum->allocated_blocks - known, "freed by unseen calls");
}

void describe_sums(FILE *out, const struct report_process *process)
{
	struct report_process *one = (struct report_process *)process;
	const struct report_summary *sum = &process->summary;
	char number[NUMBER_MAX], size[NUMBER_MAX];

	fputs("\ngpuleak: ", out);
	describe_process(out, process);
	fputs(": ", out);
	describe_count(out, sum->allocated_blocks, "block");
	fprintf(out, " (%s) allocated, ", format_size(sum->allocated_bytes, size));
	describe_fates(out, sum, &one, 1);
	if (sum->leaked_blocks)
		fprintf(out, ", %s %s (%s)", format_number(sum->leaked_blocks, number),
			process->ended == REPORT_RUNNING ? "not freed so far" : "leaked",
			format_size(sum->leaked_bytes, size));
	fprintf(out, ", peak %s; ", format_size(sum->peak_bytes, size));
	describe_ended(out, process);
	fputc('\n', out);
}

static void print_details(FILE *out, const struct subject_view *view)
{
	if (view->is_wrong)
		describe_sums(out, view->process);
}

void describe_no_gpu(FILE *out, struct report_process *const *processes, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (processes[i]->no_gpu & LEDGER_NO_GPU_FAKE_KERNELS) {
			fputs("the program's results are invalid, because kernels did nothing "
			      "(--fake-kernels); ", out);
			return;
		}
}

/* ---- JSON ---- */

static json_t *identity_json(const struct report_process *process)
{
	bool ranked = process->ranked;

	return JSON_OBJECT(
		{ "pid", json_integer(process->pid) },
		{ "command", JSON_LIST(process->command, process->command_count, json_text_at) },
		{ "ended", json_string(report_ended_word(process->ended)) },
		{ "status", json_integer(process->status) },
		{ "host", json_text(process->host) },
		{ "exe", json_text(process->exe) },
		{ "rank", JSON_IF(ranked, json_integer(process->rank)) },
		{ "ranks", JSON_IF(ranked, process->ranks ? json_integer(process->ranks)
							  : json_null()) },
		{ "rank_variable", JSON_IF(ranked, json_text(process->rank_variable)) });
}

/* Scripts compare these words, so they must not change. */
static json_t *no_gpu_json(uint32_t flags)
{
	const char *launches = flags & LEDGER_NO_GPU_LAUNCH_REFUSED ? "refused" :
			       flags & LEDGER_NO_GPU_LAUNCH_SKIPPED ? "skipped" : "none";

	return JSON_OBJECT(
		{ "launches", json_string(launches) },
		{ "results_invalid", json_boolean(flags & LEDGER_NO_GPU_FAKE_KERNELS) },
		{ "real_runtime", json_boolean(flags & LEDGER_NO_GPU_REAL_RUNTIME) });
}

json_t *json_summary(const struct report_summary *sum)
{
	bool left_out = sum->left_out_blocks, younger = sum->younger_blocks;
	bool accumulating = sum->accumulating_blocks, unseen = sum->unseen_blocks;

	return JSON_OBJECT(
		{ "leaked_bytes", json_number(sum->leaked_bytes) },
		{ "leaked_blocks", json_number(sum->leaked_blocks) },
		{ "suppressed_bytes", json_number(sum->suppressed_bytes) },
		{ "suppressed_blocks", json_number(sum->suppressed_blocks) },
		{ "cached_bytes", json_number(sum->cached_bytes) },
		{ "cached_blocks", json_number(sum->cached_blocks) },
		{ "errors", json_number(sum->errors) },
		{ "allocated_bytes", json_number(sum->allocated_bytes) },
		{ "allocated_blocks", json_number(sum->allocated_blocks) },
		{ "freed_blocks", json_number(sum->freed_blocks) },
		{ "peak_bytes", json_number(sum->peak_bytes) },
		{ "with_context_blocks", json_number(sum->with_context_blocks) },
		{ "with_context_bytes", json_number(sum->with_context_bytes) },
		{ "late_blocks", json_number(sum->late_blocks) },
		{ "unseen_blocks", JSON_IF(unseen, json_number(sum->unseen_blocks)) },
		{ "left_out_bytes", JSON_IF(left_out, json_number(sum->left_out_bytes)) },
		{ "left_out_blocks", JSON_IF(left_out, json_number(sum->left_out_blocks)) },
		{ "younger_blocks", JSON_IF(younger, json_number(sum->younger_blocks)) },
		{ "younger_bytes", JSON_IF(younger, json_number(sum->younger_bytes)) },
		{ "accumulating_bytes", JSON_IF(accumulating,
						json_number(sum->accumulating_bytes)) },
		{ "accumulating_blocks", JSON_IF(accumulating,
						 json_number(sum->accumulating_blocks)) });
}

void json_add_words(json_t *object, const struct report_process *process)
{
	struct text_buffer words;

	text_buffer_begin(&words);
	describe_process(words.out, process);
	json_set(object, "name", json_words(&words));
	text_buffer_begin(&words);
	describe_ended(words.out, process);
	json_set(object, "how", json_words(&words));
	text_buffer_begin(&words);
	describe_coverage(words.out, process);
	json_set(object, "coverage_text", json_words(&words));
	text_buffer_begin(&words);
	describe_outside(words.out, "", process);
	json_set(object, "outside_text", json_words(&words));
}

static void add_json(json_t *object, const struct subject_view *view)
{
	const struct report_process *process = view->process;

	JSON_ADD(object,
		 { "process", identity_json(process) },
		 { "no_gpu", JSON_IF(process->no_gpu, no_gpu_json(process->no_gpu)) },
		 { "summary", json_summary(&process->summary) });
}

const struct subject subject_process = { .details = print_details, .json = add_json };
