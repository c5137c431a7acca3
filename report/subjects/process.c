/* SPDX-License-Identifier: MIT
 *
 * The process itself: its name, how it ended, and the sums of its report. In the text report they
 * are in the first lines, which no subject prints.
 */
#include "report/subjects/common.h"

#include "ledger/no_gpu.h"
#include "report/subjects/figures.h"
#include "report/subjects/findings.h"

/* ---- text ---- */

static void print_fate(FILE *out, uint64_t blocks, const char *what)
{
	if (blocks)
		fprintf(out, ", %s %s", NUMBER(blocks), what);
}

void describe_fates(FILE *out, const struct report_summary *sum,
		    struct report_process *const *processes, size_t count)
{
	uint64_t live = add_bounded(add_bounded(sum->leaked_blocks, sum->kept_blocks),
				    add_bounded(sum->suppressed_blocks, sum->cached_blocks));
	uint64_t known = add_bounded(add_bounded(sum->freed_blocks, live),
				     add_bounded(sum->with_context_blocks, sum->deferred_blocks));

	known = add_bounded(known, add_bounded(sum->left_out_blocks, sum->younger_blocks));
	if (sum->freed_blocks == sum->allocated_blocks)
		fputs("all freed", out);
	else
		fprintf(out, "%s freed", NUMBER(sum->freed_blocks));
	if (sum->late_blocks)
		fprintf(out, " (%s of them after the driver had begun to shut down)",
			NUMBER(sum->late_blocks));
	print_fate(out, sum->with_context_blocks, "released with their context");
	print_fate(out, sum->deferred_blocks, "released but not freed");
	print_fate(out, sum->younger_blocks, "younger than --older");
	print_fate(out, sum->kept_blocks, "kept");
	print_fate(out, sum->suppressed_blocks, "suppressed");
	if (sum->cached_blocks)
		describe_caches(out, processes, count);
	print_fate(out, sum->left_out_blocks, "not selected");
	if (known < sum->allocated_blocks)
		print_fate(out, sum->allocated_blocks - known, "freed by unseen calls");
}

void describe_no_gpu(FILE *out, struct report_process *const *processes, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (processes[i]->no_gpu & LEDGER_NO_GPU_FAKE_KERNELS) {
			fputs("results are invalid (--fake-kernels); ", out);
			return;
		}
}

/* Prints "kept 2.1 GiB of 40.3 GiB allocated in 60 s, most at decode (/abs/serve.py:88)". */
void describe_kept(FILE *out, const struct report_summary *sum, const struct finding *most,
		   bool brief, bool whole)
{
	if (!most)
		return;
	fprintf(out, "kept %s of %s allocated in %s", SIZE(sum->kept_bytes),
		SIZE(sum->allocated_bytes), SECONDS(most->process->attached_ns));
	if (brief)
		return;
	fputs(most->bytes < sum->kept_bytes ? ", most at " : " at ", out);
	describe_place_and_caller(out, most->stack, whole);
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
		{ "rank_variable", JSON_IF(ranked, json_text(process->rank_variable)) },
		{ "attached_seconds", process->attached
					      ? json_real((double)process->attached_ns / 1e9)
					      : json_null() },
		{ "before_attach_bytes", process->before_attach_bytes
						 ? json_number(process->before_attach_bytes)
						 : json_null() });
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

#define SUM(name) .key = #name, FIGURE(report_summary, name)
#define SUM_IF(name) FIGURE_IF(report_summary, name)

static const struct figure rows[] = {
	{ SUM(leaked_bytes), .in_junit = true, .page = { 1, "Leaked", .is_bad = true },
	  .help = "Leaked bytes, without suppressed ones and caches." },
	{ SUM(leaked_blocks), .in_junit = true,
	  .help = "Leaked blocks, without suppressed ones and caches." },
	{ SUM(keeps_bytes) },
	{ SUM(suppressed_bytes), .in_junit = true, .page = { 7, "Suppressed", .only_if_any = true },
	  .help = "Bytes that would be leaked, but are suppressed." },
	{ SUM(suppressed_blocks) },
	{ SUM(cached_bytes), .in_junit = true,
	  .page = { 8, "Framework caches", .only_if_any = true },
	  .help = "Bytes that a framework's cache holds." },
	{ SUM(cached_blocks) },
	{ SUM(errors), .in_junit = true,
	  .page = { 3, "Errors", .note = "invalid frees", .is_bad = true } },
	{ SUM(allocated_bytes), .in_junit = true, .page = { 4, "Allocated" } },
	{ SUM(allocated_blocks), .in_junit = true },
	{ SUM(freed_blocks), .page = { 5, "Freed", .note = "blocks" } },
	{ SUM(peak_bytes), .in_junit = true,
	  .page = { 6, "Peak", .note = "live at one moment" },
	  .help = "Highest number of live bytes." },
	{ SUM(with_context_blocks) },
	{ SUM(with_context_bytes), .page = { 9, "Ended with context", .only_if_any = true } },
	{ SUM(ended_with_context_blocks), SUM_IF(ended_with_context_blocks) },
	{ SUM(ended_with_context_bytes), SUM_IF(ended_with_context_blocks) },
	{ SUM(late_blocks) },
	{ FIGURE(report_summary, refused_frees), .metric = "refused_frees_total",
	  .help = "Frees of live blocks that the driver refused." },
	{ SUM(unseen_blocks), SUM_IF(unseen_blocks) },
	{ SUM(left_out_bytes), SUM_IF(left_out_blocks) },
	{ SUM(left_out_blocks), SUM_IF(left_out_blocks) },
	{ SUM(younger_blocks), SUM_IF(younger_blocks) },
	{ SUM(younger_bytes), SUM_IF(younger_blocks) },
	{ SUM(accumulating_bytes), SUM_IF(accumulating_blocks),
	  .page = { 2, "Accumulating", .only_if_any = true, .is_bad = true } },
	{ SUM(accumulating_blocks), SUM_IF(accumulating_blocks) },
	{ SUM(kept_bytes), SUM_IF(kept_blocks), .page = { 10, "Kept", .only_if_any = true } },
	{ SUM(kept_blocks), SUM_IF(kept_blocks) },
};

static const void *summary(const struct report_process *process, size_t i, FILE *labels)
{
	(void)labels;
	return i == 0 ? &process->summary : NULL;
}

static const struct figures figures = { .prefix = "gpuleak_", FIGURES(rows), .item = summary };

json_t *json_summary(const struct report_summary *sum)
{
	json_t *ret = json_object();

	figures_add_json(ret, &figures, sum);
	return ret;
}

void json_add_words(json_t *object, const struct report_process *process)
{
	JSON_ADD(object,
		 { "name", JSON_PRINTED(to, describe_process(to, process)) },
		 { "how", JSON_PRINTED(to, describe_ended(to, process)) },
		 { "coverage_text", JSON_PRINTED(to, describe_coverage(to, process)) },
		 { "outside_text", JSON_PRINTED(to, describe_outside(to, "", process)) });
}

static void add_json(json_t *object, const struct subject_view *view)
{
	const struct report_process *process = view->process;

	JSON_ADD(object,
		 { "process", identity_json(process) },
		 { "no_gpu", JSON_IF(process->no_gpu, no_gpu_json(process->no_gpu)) },
		 { "summary", json_summary(&process->summary) });
}

const struct subject subject_process = { .json = add_json, .figures = &figures };
