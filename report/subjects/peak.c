/* SPDX-License-Identifier: MIT
 *
 * The peak of each memory and, from the balances of the call sites, what held it then. Reads only
 * what a damaged ledger may have, too: sums that overflow, and numbers that lead nowhere. Holders
 * have the same names as in the description of an out-of-memory. JSON has the largest peak, with
 * the others in its key "others".
 */
#include "report/subjects/subject.h"

#include <stdlib.h>
#include <string.h>

#include "report/describe/format_place.h"
#include "report/describe/json_helpers.h"
#include "report/describe/json_values.h"
#include "report/model/builder.h"
#include "report/model/model.h"
#include "report/model/model_holders.h"
#include "report/subjects/figures.h"
#include "report/subjects/held.h"
#include "report/subjects/subject_words.h"

#include "report/util/number.h"

/* Maximum number of call sites in the list, the same as for an out-of-memory. Smaller ones are
 * added up. */
#define HOLDERS_MAX 1000u

/* What the call sites of one place in the program had live at the peak of a memory. */
struct amount {
	const struct ledger_site *site; /* the first of them in the ledger */
	struct site_key key;
	uint32_t memory;
	bool inside; /* they are suballocations, inside of blocks */
	uint64_t bytes, blocks;
};

struct peaks {
	struct builder *b;
	const struct ledger_peak *records[LEDGER_MEMORIES_MAX];
	uint32_t numbers[LEDGER_MEMORIES_MAX]; /* number of the last peak of each memory */
	size_t count;
	struct amount *amounts;
	size_t amount_count;
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
	struct amount amount = { .site = site, .inside = inside };
	uint32_t blocks = 0;

	if (!own || !others || own->memory < 1 || own->memory > peaks->count)
		return;
	amount.memory = own->memory - 1;
	add_balance(own, peaks->numbers[amount.memory], &amount.bytes, &blocks);
	add_balance(others, peaks->numbers[amount.memory], &amount.bytes, &blocks);
	if ((int64_t)amount.bytes <= 0)
		return;
	amount.blocks = (int32_t)blocks > 0 ? blocks : 0;
	amount.key = site_key_of(peaks->b, site);
	*ARENA_ADD(peaks->b->arena, peaks->amounts, peaks->amount_count) = amount;
}

static void read_sites(struct peaks *peaks, enum ledger_chunk_type type)
{
	struct ledger_walk walk = { 0 };
	const struct ledger_site *site;

	while ((site = ledger_next(peaks->b->view, &walk, type, sizeof(*site))))
		read_site(peaks, site, type == LEDGER_CHUNK_SUBALLOCATION_SITES);
}

static int compare_keys(const struct amount *a, const struct amount *b)
{
	return compare_numbers(a->memory, b->memory) ?: site_key_compare(&a->key, &b->key);
}

static int compare_places(const void *left, const void *right)
{
	const struct amount *a = left, *b = right;

	return compare_keys(a, b) ?: compare_numbers((uintptr_t)a->site, (uintptr_t)b->site);
}

static int compare_sizes(const void *left, const void *right)
{
	const struct amount *a = left, *b = right;

	return compare_numbers(a->memory, b->memory) ?: compare_numbers(b->bytes, a->bytes)
	       ?: compare_numbers((uintptr_t)a->site, (uintptr_t)b->site);
}

/* Adds up amounts of one place, because each thread has its own call sites. Then sorts them by
 * memory and size, largest first. */
static void merge_amounts(struct peaks *peaks)
{
	struct amount *list = peaks->amounts;
	size_t kept = 0;

	if (!peaks->amount_count)
		return;
	SORT(list, peaks->amount_count, compare_places);
	for (size_t i = 1; i < peaks->amount_count; i++) {
		if (compare_keys(&list[kept], &list[i]) != 0) {
			list[++kept] = list[i];
			continue;
		}
		list[kept].bytes = add_bounded(list[kept].bytes, list[i].bytes);
		list[kept].blocks = add_bounded(list[kept].blocks, list[i].blocks);
	}
	peaks->amount_count = kept + 1;
	SORT(list, peaks->amount_count, compare_sizes);
}

/* ---- peaks ---- */

static uint64_t difference(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

/* Lists the first of the COUNT AMOUNTS, and adds up the others. Stores in SUMS[0] the bytes of
 * blocks, and in SUMS[1] the bytes of suballocations. */
static void list_holders(struct builder *b, const struct amount *amounts, size_t count,
			 struct report_holders *held, uint64_t sums[2])
{
	for (size_t i = 0; i < count; i++) {
		sums[amounts[i].inside] = add_bounded(sums[amounts[i].inside], amounts[i].bytes);
		if (i < HOLDERS_MAX) {
			*ARENA_ADD(b->arena, held->list, held->count) =
				build_holder(b, amounts[i].site, amounts[i].bytes,
					     amounts[i].blocks);
			continue;
		}
		held->other_sites++;
		held->other_bytes = add_bounded(held->other_bytes, amounts[i].bytes);
		held->other_blocks = add_bounded(held->other_blocks, amounts[i].blocks);
	}
	report_merge_holders(held);
}

static struct report_peak read_peak(struct peaks *peaks, uint32_t memory,
				    const struct amount *amounts, size_t count)
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

	list_holders(peaks->b, amounts, count, &ret.held, sums);
	ret.error_bytes = add_bounded(ret.error_bytes, difference(at->bytes, sums[0]));
	ret.error_bytes =
		add_bounded(ret.error_bytes, difference(at->suballocated_bytes, sums[1]));
	report_divide_holders(peaks->b, &ret.held, sums[1]);
	return ret;
}

static int compare_peaks(const void *left, const void *right)
{
	const struct report_peak *a = left, *b = right;

	return compare_numbers(b->bytes, a->bytes) ?: compare_numbers(a->memory, b->memory)
	       ?: compare_ints(a->device, b->device);
}

static void list_peaks(struct peaks *peaks)
{
	struct report_process *process = peaks->b->process;
	size_t first = 0, end;

	for (uint32_t i = 0; i < peaks->count; i++, first = end) {
		for (end = first; end < peaks->amount_count && peaks->amounts[end].memory == i;)
			end++;
		if (peaks->numbers[i])
			*ARENA_ADD(peaks->b->arena, process->peaks, process->peak_count) =
				read_peak(peaks, i, peaks->amounts ? &peaks->amounts[first] : NULL,
					  end - first);
	}
	SORT(process->peaks, process->peak_count, compare_peaks);
}

static void build(struct builder *b)
{
	struct peaks peaks = { .b = b };
	struct ledger_walk walk = { 0 };
	const struct ledger_peak *record;

	while (peaks.count < LEDGER_MEMORIES_MAX && (record = ledger_next_peak(b->view, &walk))) {
		peaks.numbers[peaks.count] = record->number;
		peaks.records[peaks.count++] = record;
	}
	read_sites(&peaks, LEDGER_CHUNK_SITES);
	read_sites(&peaks, LEDGER_CHUNK_SUBALLOCATION_SITES);
	merge_amounts(&peaks);
	list_peaks(&peaks);
}

/* ---- text ---- */

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

const struct subject subject_peak = {
	.build = build, .chunks = CHUNK_BIT(PEAKS), .only_if = PART(peak_count),
	.has_keys_always = true, .details = print_details, .json = add_json, .figures = &figures,
};
