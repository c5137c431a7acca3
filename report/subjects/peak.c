/* SPDX-License-Identifier: MIT
 *
 * The peak of each memory and the call sites that held it. Holders have the same names as in the
 * description of an out-of-memory. JSON has the largest peak, with the others in its key "others".
 */
#include "report/subjects/subject.h"

#include "report/describe/format_place.h"
#include "report/describe/json_helpers.h"
#include "report/model/model.h"
#include "report/model/model_holders.h"
#include "report/subjects/figures.h"
#include "report/subjects/held.h"
#include "report/describe/json_values.h"
#include "report/subjects/subject_words.h"
#include "report/util/number.h"

const char *peak_memory_word(const struct report_peak *peak)
{
	switch (peak->memory) {
	case LEDGER_MEMORY_HOST:
		return "host";
	case LEDGER_MEMORY_OPENCL:
		return "opencl";
	default:
		return "device";
	}
}

void describe_peak_memory(FILE *out, const struct report_peak *peak)
{
	if (peak->memory == LEDGER_MEMORY_HOST) {
		fputs("host memory", out);
		return;
	}
	if (peak->memory == LEDGER_MEMORY_OPENCL)
		fputs("OpenCL ", out);
	if (peak->device >= 0)
		fprintf(out, "device %d", peak->device);
	else
		fputs(peak->memory == LEDGER_MEMORY_OPENCL ? "memory" : "an unknown device", out);
}

/* Prints ", of which 900.0 MiB by workspace (/abs/solver.c:41)". */
static void print_largest(FILE *out, uint64_t bytes, const struct held *held)
{
	if (held->bytes >= bytes)
		fputs(", all of it", out);
	else
		fprintf(out, ", of which %s", SIZE(held->bytes));
	/* "unused in the PyTorch caching allocator" needs no "by" */
	fprintf(out, " %s%s", held->is_unused ? "" : "by ", held->name);
}

void describe_peak(FILE *out, const struct report_process *process, bool whole)
{
	const struct report_peak *peak = process->peaks;
	bool is_only = process->peak_count == 1;
	/* The peak of the only memory is the peak of the process, which is counted exactly. */
	uint64_t bytes = is_only ? process->summary.peak_bytes : peak->bytes;
	struct held_list held = held_sum_up(&peak->held, HELD_BY_PLACE, whole);

	fprintf(out, "peak %s", SIZE(bytes));
	if (!is_only) {
		fputs(" of ", out);
		describe_peak_memory(out, peak);
	}
	if (held.count)
		print_largest(out, bytes, &held.list[0]);
	held_finish(&held);
}

void describe_peak_holders(FILE *out, const struct report_peak *peak, bool whole)
{
	size_t items = 0;

	fprintf(out, "%s of ", SIZE(peak->bytes));
	describe_peak_memory(out, peak);
	fputc(':', out);
	describe_largest_places(out, &items, &peak->held, whole);
}

static void print_table(FILE *out, const struct report_peak *peak)
{
	fputs("\nPeak of ", out);
	describe_peak_memory(out, peak);
	fprintf(out, ": %s after %s", EXACT_SIZE(peak->bytes), TIME(peak->time_ns));
	if (peak->error_bytes)
		fprintf(out, ", exact to %s", SIZE(peak->error_bytes));
	fputs(", held by:\n", out);
	describe_holders(out, &peak->held, true);
}

static void print_details(FILE *out, const struct subject_view *view)
{
	const struct report_process *process = view->process;

	if (!view->is_wrong && !view->verbose)
		return;
	for (size_t i = 0; i < process->peak_count; i++) {
		if (view->verbose) {
			print_table(out, &process->peaks[i]);
			continue;
		}
		fputs(i ? "Peak: " : "\nPeak: ", out);
		describe_peak_holders(out, &process->peaks[i], view->verbose);
		fputc('\n', out);
	}
}

/* ---- JSON ---- */

static json_t *peak_json(const void *item, const struct subject_view *view)
{
	const struct report_peak *peak = item;
	bool is_largest = peak == view->process->peaks;
	json_t *ret = JSON_OBJECT(
		{ "memory", json_string(peak_memory_word(peak)) },
		{ "device", json_integer(peak->device) },
		{ "bytes", json_number(peak->bytes) },
		{ "seconds", json_real((double)peak->time_ns / 1e9) },
		{ "error_bytes", json_number(peak->error_bytes) });

	json_add_holders(ret, &peak->held, view);
	JSON_ADD(ret,
		 { "others", JSON_IF(is_largest,
				     JSON_LIST_FOR(view, peak + 1, view->process->peak_count - 1,
						   peak_json)) },
		 { "name", JSON_IF(view->has_words,
				   JSON_PRINTED(to, describe_peak_memory(to, peak))) });
	return ret;
}

static void add_json(json_t *object, const struct subject_view *view)
{
	const struct report_process *process = view->process;

	json_set(object, "peak",
		 process->peak_count ? peak_json(process->peaks, view) : json_null());
}

/* These peaks may be at different times. */
static const struct figure rows[] = {
	{ FIGURE(report_peak, bytes), .metric = "memory_peak_bytes",
	  .help = "Highest number of live bytes of a device, or of host memory." },
};

static const void *item(const struct report_process *process, size_t i, FILE *labels)
{
	const struct report_peak *peak = process->peaks + i;

	if (i >= process->peak_count)
		return NULL;
	if (labels)
		metric_label(labels, "memory", peak_memory_word(peak));
	if (labels && peak->memory != LEDGER_MEMORY_HOST)
		metric_device(labels, peak->device);
	return peak;
}

static const struct figures figures = { .prefix = "gpuleak_", FIGURES(rows), .item = item };

const struct subject subject_peak = { .details = print_details, .json = add_json,
				      .figures = &figures };
