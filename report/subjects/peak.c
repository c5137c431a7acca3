/* SPDX-License-Identifier: MIT
 *
 * The peak of each memory and, from the balances of the call sites, what held it then. Reads only
 * what a damaged ledger may have, too: sums that overflow, and numbers that lead nowhere. Holders
 * have the same names as in the description of an out-of-memory. JSON has the largest peak, with
 * the others in its key "others".
 */
#include "report/subjects/common.h"

#include "report/model/model_holders.h"
#include "report/subjects/figures.h"
#include "report/subjects/held.h"

struct peaks {
	struct builder *b;
	const struct ledger_peak *records[LEDGER_MEMORIES_MAX];
	uint32_t numbers[LEDGER_MEMORIES_MAX]; /* number of the last peak of each memory */
	struct site_list sites[LEDGER_MEMORIES_MAX]; /* see held_site_add() */
	size_t count;
};

/* ---- amounts ---- */

/* Adds to *BYTES and *BLOCKS what BALANCE had at the peak with NUMBER. */
static void add_balance(const struct ledger_balance *balance, uint32_t number, uint64_t *bytes,
			uint32_t *blocks)
{
	bool kept = (int32_t)(number - balance->peak) <= 0;

	*bytes += kept ? balance->peak_bytes : balance->bytes;
	*blocks += kept ? balance->peak_blocks : balance->blocks;
}

static void read_site(struct peaks *peaks, const struct ledger_site *site, bool inside)
{
	const struct ledger_balance *own = ledger_balance_of(peaks->b->view, site);
	const struct ledger_balance *others = ledger_others_balance_of(peaks->b->view, site);
	uint64_t bytes = 0;
	uint32_t blocks = 0, memory;

	if (!own || !others || own->memory < 1 || own->memory > peaks->count)
		return;
	memory = own->memory - 1;
	add_balance(own, peaks->numbers[memory], &bytes, &blocks);
	add_balance(others, peaks->numbers[memory], &bytes, &blocks);
	if ((int64_t)bytes <= 0)
		return;
	held_site_add(&peaks->sites[memory], site, inside, bytes,
		      (int32_t)blocks > 0 ? blocks : 0);
}

static void read_sites(struct peaks *peaks, enum ledger_chunk_type type)
{
	struct ledger_walk walk = { 0 };
	const struct ledger_site *site;

	while ((site = ledger_next(peaks->b->view, &walk, type, sizeof(*site))))
		read_site(peaks, site, type == LEDGER_CHUNK_SUBALLOCATION_SITES);
}

/* ---- peaks ---- */

static struct report_peak read_peak(const struct peaks *peaks, uint32_t memory)
{
	const struct ledger_peak *record = peaks->records[memory];
	const struct ledger_peak_at *at = &record->at[peaks->numbers[memory] % 2];
	uint64_t sums[2] = { 0, 0 };
	struct report_peak ret = {
		.memory = record->memory <= LEDGER_MEMORY_OPENCL
				  ? (enum ledger_memory)record->memory
				  : LEDGER_MEMORY_NONE,
		.device = record->device,
		.bytes = at->bytes,
		.time_ns = at->time_ns,
		.error_bytes = at->unnoted_bytes,
	};

	held_sites_list(&peaks->sites[memory], &ret.held, sums);
	ret.error_bytes = add_bounded(ret.error_bytes,
				      less(at->bytes, sums[0]) + less(sums[0], at->bytes));
	ret.error_bytes =
		add_bounded(ret.error_bytes, less(at->suballocated_bytes, sums[1]) +
					     less(sums[1], at->suballocated_bytes));
	report_divide_holders(peaks->b, &ret.held, sums[1]);
	return ret;
}

static int compare_peaks(const void *left, const void *right)
{
	const struct report_peak *a = left, *b = right;

	return compare_numbers(b->bytes, a->bytes) ?: compare_numbers(a->memory, b->memory)
	       ?: compare_ints(a->device, b->device);
}

static void build(struct builder *b)
{
	struct report_process *process = b->process;
	struct peaks peaks = { .b = b };
	struct ledger_walk walk = { 0 };
	const struct ledger_peak *record;

	while (peaks.count < LEDGER_MEMORIES_MAX && (record = ledger_next_peak(b->view, &walk))) {
		peaks.sites[peaks.count] = held_sites(b);
		peaks.numbers[peaks.count] = record->number;
		peaks.records[peaks.count++] = record;
	}
	read_sites(&peaks, LEDGER_CHUNK_SITES);
	read_sites(&peaks, LEDGER_CHUNK_SUBALLOCATION_SITES);
	for (uint32_t i = 0; i < peaks.count; i++)
		if (peaks.numbers[i])
			*ARENA_ADD(b->arena, process->peaks, process->peak_count) =
				read_peak(&peaks, i);
	SORT(process->peaks, process->peak_count, compare_peaks);
}

/* ---- text ---- */

const char *peak_memory_word(const struct report_peak *peak)
{
	return peak->memory == LEDGER_MEMORY_HOST     ? "host"
	       : peak->memory == LEDGER_MEMORY_OPENCL ? "opencl"
						      : "device";
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

/* Prints ", of which 900.0 MiB by workspace (/abs/solver.c:41)" or "by the CuPy memory pool, most
 * at load (/abs/a.py:4)". */
static void print_largest(FILE *out, uint64_t bytes, const struct held *held, bool whole)
{
	const struct report_leak *most = held->largest;

	if (held->bytes >= bytes)
		fputs(", all of it", out);
	else if (strcmp(SIZE(held->bytes), SIZE(bytes)) == 0)
		fputs(", almost all of it", out);
	else
		fprintf(out, ", of which %s", SIZE(held->bytes));
	/* "unused in the PyTorch caching allocator" needs no "by" */
	fprintf(out, " %s%s", held->is_unused ? "" : "by ", held->name);
	if (!most->cache || held->is_unused || report_is_suballocation(most))
		return;
	fprintf(out, ", %sat ", most->bytes == held->bytes ? "" : "most ");
	describe_place(out, most->site->stack, whole);
}

void describe_peak(FILE *out, const struct report_process *process, bool whole)
{
	const struct report_peak *peak = process->peaks;
	bool is_only = process->peak_count == 1;
	/* The peak of the only memory is the peak of the process, which is counted exactly. */
	uint64_t bytes = is_only ? process->summary.peak_bytes : peak->bytes;
	AT_END(held_finish) struct held_list held = held_sum_up(&peak->held, HELD_BY_OWNER, whole);

	fprintf(out, "peak %s", SIZE(bytes));
	if (!is_only) {
		fputs(" of ", out);
		describe_peak_memory(out, peak);
	}
	if (held.count)
		print_largest(out, bytes, &held.list[0], whole);
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
	const struct report_peak *peak;

	if (i >= process->peak_count)
		return NULL;
	peak = &process->peaks[i];
	if (labels)
		metric_label(labels, "memory", peak_memory_word(peak));
	if (labels && peak->memory != LEDGER_MEMORY_HOST)
		metric_device(labels, peak->device);
	return peak;
}

static const struct figures figures = { .prefix = "gpuleak_", FIGURES(rows), .item = item };

const struct subject subject_peak = {
	.build = build, .chunks = CHUNK_BIT(PEAKS), .only_if = PART(peak_count),
	.has_keys_always = true, .details = print_details, .json = add_json, .figures = &figures,
};
