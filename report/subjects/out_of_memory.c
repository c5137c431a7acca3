/* SPDX-License-Identifier: MIT
 *
 * Allocations that ran out of memory: the request, its stack, its outcome, and the call sites that
 * held the memory. Reads only what a damaged ledger may have, too: counts beyond the record, and
 * refs that lead nowhere. In JSON, what is not known is null.
 */
#include "report/subjects/common.h"

#include "report/model/model_driver_memory.h"
#include "report/model/model_holders.h"
#include "report/subjects/figures.h"
#include "report/subjects/held.h"

#define RECORDS_MAX (LEDGER_REFUSALS_FIRST + LEDGER_REFUSALS_LAST)
/* If a sample of driver memory differs by at most this time, it is near: the sampler pauses for up
 * to half a second. */
#define NEAR_NS 2000000000u

static void read_holders(struct builder *b, const struct ledger_out_of_memory *record,
			 struct report_out_of_memory *entry)
{
	size_t count = record->holders < LEDGER_HOLDERS_MAX ? record->holders : LEDGER_HOLDERS_MAX;
	struct report_holders *held = &entry->held;

	entry->has_holders = true;
	held->divided = (record->state & LEDGER_REFUSAL_DIVIDED) != 0;
	held->other_sites = record->other_sites;
	held->other_bytes = record->other_bytes;
	held->other_blocks = record->other_blocks;
	EACH_ITEM(record->holder, count, holder) {
		const struct ledger_site *site = ledger_any_site(b->view, holder->site);

		b->bad_refs += !site;
		*ARENA_ADD(b->arena, held->list, held->count) =
			build_holder(intern_site(b, site), holder->bytes, holder->blocks);
	}
	report_merge_holders(held);
	report_divide_holders(b, held, record->inside_bytes);
	entry->tracked_bytes = held->other_bytes;
	for (size_t i = 0; i < held->count; i++)
		entry->tracked_bytes = add_bounded(entry->tracked_bytes, held->list[i].bytes);
}

/* ---- requests ---- */

static uint64_t count_allocs(const struct builder *b, enum ledger_chunk_type type)
{
	struct ledger_walk walk = { 0 };
	const struct ledger_site *site;
	uint64_t allocs = 0;

	while ((site = ledger_next(b->view, &walk, type, sizeof(*site))))
		allocs = add_bounded(allocs, site->allocs);
	return allocs;
}

static bool went_on(const struct builder *b, const struct ledger_out_of_memory *record)
{
	if (!(record->state & LEDGER_REFUSAL_HOLDERS))
		return true;
	return count_allocs(b, LEDGER_CHUNK_SITES) > record->allocs ||
	       count_allocs(b, LEDGER_CHUNK_SUBALLOCATION_SITES) > record->suballocs;
}

static void copy_figures(const struct ledger_out_of_memory *record,
			 struct report_out_of_memory *ret)
{
	ret->number = LEDGER_REFUSAL_NUMBER(record->state);
	ret->bytes = record->bytes;
	ret->time_ns = record->time_ns;
	ret->times = record->times;
	ret->refuser = record->refuser <= LEDGER_REFUSER_FRAMEWORK
			       ? (enum ledger_refuser)record->refuser
			       : LEDGER_REFUSER_DRIVER;
	ret->limit_bytes = record->limit_bytes;
	ret->recovered = (record->state & LEDGER_REFUSAL_RECOVERED) != 0;
	ret->gave_up = (record->state & LEDGER_REFUSAL_GAVE_UP) != 0;
	ret->has_free = (record->state & LEDGER_REFUSAL_FREE) != 0;
	ret->free_bytes = record->free_bytes;
	ret->total_bytes = record->total_bytes;
	ret->framework_bytes = record->framework_bytes;
	ret->framework_allocated = record->framework_allocated;
	ret->framework_reserved = record->framework_reserved;
}

/* Returns what memory pools had parked on the device of ENTRY. */
static struct parked_sum parked_of(const struct report_process *process,
				   const struct report_out_of_memory *entry)
{
	return parked_sum_up(process, LEDGER_PARKED_REFUSAL, entry->number, entry->site->device);
}

static void read_record(struct builder *b, const struct ledger_out_of_memory *record,
			struct report_out_of_memory *ret)
{
	copy_figures(record, ret);
	ret->site = build_call(b, record->api, record->device, record->stack);
	ret->parked_bytes = parked_of(b->process, ret).unused;
	if (ret->gave_up) {
		ret->framework = report_framework_of(build_text(b, record->framework_api));
		ret->framework = ret->framework ? ret->framework : build_unknown;
	}
	ret->went_on = went_on(b, record);
	ret->fragmentation = build_fragmentations(b, record);
	if (record->state & LEDGER_REFUSAL_HOLDERS)
		read_holders(b, record, ret);
}

static int compare_numbers_of(const void *left, const void *right)
{
	const struct report_out_of_memory *a = left, *b = right;

	return compare_numbers(a->number, b->number);
}

static void build(struct builder *b)
{
	struct report_process *process = b->process;
	struct ledger_walk walk = { 0 };
	const struct ledger_out_of_memory *record;

	while (process->out_of_memory_count < RECORDS_MAX &&
	       (record = ledger_next_out_of_memory(b->view, &walk)))
		if (LEDGER_REFUSAL_NUMBER(record->state))
			read_record(b, record, ARENA_ADD(b->arena, process->out_of_memory,
							 process->out_of_memory_count));
	SORT(process->out_of_memory, process->out_of_memory_count, compare_numbers_of);
	if (process->refused < process->out_of_memory_count)
		process->refused = process->out_of_memory_count;
}

/* ---- questions ---- */

static bool ended_well(const struct report_process *process)
{
	return process->ended != REPORT_UNKNOWN && process->ended != REPORT_SIGNAL &&
	       process->status == 0;
}

/* A program that fails so long after a refusal has probably failed for another reason, if it
 * allocated in between. */
#define SOON_NS 10000000000u

/* Returns true if PROCESS ended at most SOON_NS after the refusal, or if that is not known. Of a
 * process that was killed, the last sample of its live memory counts as its end. */
static bool ended_soon(const struct report_process *process,
		       const struct report_out_of_memory *entry)
{
	const struct report_series *live = &process->timeline.total;
	uint64_t end_ns = process->timeline.end_ns;

	for (size_t i = 0; !process->timeline.end_ns && i < live->count; i++)
		if (live->samples[i].time_ns > end_ns)
			end_ns = live->samples[i].time_ns;
	return end_ns <= entry->time_ns || end_ns - entry->time_ns <= SOON_NS;
}

enum report_outcome report_outcome(const struct report_process *process,
				   const struct report_out_of_memory *entry)
{
	if (entry->recovered)
		return OUTCOME_RECOVERED;
	if (entry->gave_up && !entry->went_on)
		return OUTCOME_FINAL;
	if (!ended_well(process) && (!entry->went_on || ended_soon(process, entry)))
		return OUTCOME_FINAL;
	return OUTCOME_TOLERATED;
}

const char *report_outcome_word(enum report_outcome outcome)
{
	static const char *const words[] = {
		[OUTCOME_RECOVERED] = "recovered",
		[OUTCOME_TOLERATED] = "tolerated",
		[OUTCOME_FINAL] = "final",
	};

	return words[outcome];
}

const struct report_out_of_memory *report_final_out_of_memory(const struct report_process *process)
{
	for (size_t i = process->out_of_memory_count; i--;)
		if (report_outcome(process, &process->out_of_memory[i]) == OUTCOME_FINAL)
			return &process->out_of_memory[i];
	return NULL;
}

static uint64_t distance(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

static void take_nearer(const struct driver_memory_sample **best,
			const struct driver_memory_sample *sample, uint64_t time_ns)
{
	uint64_t away = distance(sample->at_ns, time_ns);

	if (away <= NEAR_NS && (!*best || away < distance((*best)->at_ns, time_ns)))
		*best = sample;
}

const struct driver_memory_sample *report_sample_near(const struct report_process *process,
						      const struct report_out_of_memory *entry)
{
	const struct driver_memory_sample *best = NULL;
	const struct driver_memory_series *series = NULL;

	for (size_t i = 0; i < process->device_count && !series; i++)
		if (process->devices[i].ordinal == entry->site->device)
			series = process->devices[i].series;
	if (!series || !series->taken || series->source != DRIVER_MEMORY_NVML_PROCESS)
		return NULL;
	take_nearer(&best, &series->last, entry->time_ns);
	for (uint32_t i = 0; i < series->count; i++)
		take_nearer(&best, &series->samples[i], entry->time_ns);
	for (uint32_t i = 0; i < series->near_count && i < DRIVER_MEMORY_NEAR; i++)
		take_nearer(&best, &series->near[i], entry->time_ns);
	return best;
}

/* ---- text ---- */

/* Returns who refused the request: "driver", "GPULEAK_LIMIT", "GPULEAK_FAIL_AT", or the
 * framework. */
static const char *refuser_of(const struct report_out_of_memory *entry)
{
	return entry->refuser == LEDGER_REFUSER_LIMIT	      ? "GPULEAK_LIMIT"
	       : entry->refuser == LEDGER_REFUSER_FAIL_AT     ? "GPULEAK_FAIL_AT"
	       : entry->refuser != LEDGER_REFUSER_FRAMEWORK ? "driver"
							      : entry->framework ?: "framework";
}

uint64_t out_of_memory_wanted(const struct report_out_of_memory *entry)
{
	return entry->gave_up && entry->framework_bytes ? entry->framework_bytes : entry->bytes;
}

/* Stores the bytes of the device that are neither free nor held by the call sites nor unused in
 * memory pools: they belong to the driver and to other processes. Returns false if that is not
 * known. */
static bool rest_of(const struct report_out_of_memory *entry, uint64_t *ret)
{
	uint64_t known = add_bounded(entry->free_bytes,
				     add_bounded(entry->tracked_bytes, entry->parked_bytes));

	if (!entry->has_free || !entry->has_holders || known > entry->total_bytes)
		return false;
	*ret = entry->total_bytes - known;
	return true;
}

/* Returns true if a limit of the process refused the request. It does not count what no holder
 * has. */
static bool is_injected(const struct report_out_of_memory *entry)
{
	return entry->refuser == LEDGER_REFUSER_LIMIT || entry->refuser == LEDGER_REFUSER_FAIL_AT;
}

/* Returns the driver's own memory without what memory pools do not use. */
static uint64_t driver_bytes(const struct driver_memory_sample *sample,
			     const struct report_out_of_memory *entry)
{
	uint64_t bytes = driver_part(sample);

	return bytes > entry->parked_bytes ? bytes - entry->parked_bytes : 0;
}

/* Prints the parts of the device that no holder has. */
static void print_rest(FILE *out, size_t *items, const struct report_process *process,
		       const struct report_out_of_memory *entry)
{
	const struct driver_memory_sample *sample = report_sample_near(process, entry);
	uint64_t rest;

	if (sample) {
		describe_held_item(out, items, driver_bytes(sample, entry), "driver");
		describe_held_item(out, items, others_part(sample), "other processes");
	} else if (rest_of(entry, &rest)) {
		describe_held_item(out, items, rest,
				   report_shares_memory(process, entry->site->device)
					   ? "driver, other processes and the CPU"
					   : "driver and other processes");
	}
}

static void print_held(FILE *out, const struct report_process *process,
		       const struct report_out_of_memory *entry, bool whole)
{
	struct parked_sum parked = parked_of(process, entry);
	bool is_parked = false;
	size_t items = 0;

	fputs("; held:", out);
	describe_largest_places(out, &items, &entry->held, whole);
	if (!is_injected(entry)) {
		print_rest(out, &items, process, entry);
		is_parked = describe_parked(out, items ? "; " : " ", &parked,
					    out_of_memory_wanted(entry));
	}
	if (!items && !is_parked)
		fputs(" nothing by this process", out);
}

void describe_out_of_memory(FILE *out, const struct report_process *process,
			    const struct report_out_of_memory *entry, bool whole)
{
	uint64_t wanted = out_of_memory_wanted(entry);

	fprintf(out, "%s wanted at ", wanted ? SIZE(wanted) : "memory");
	describe_place(out, entry->site->stack, whole);
	if (entry->refuser != LEDGER_REFUSER_DRIVER)
		fprintf(out, ", refused by %s", refuser_of(entry));
	if (entry->limit_bytes)
		fprintf(out, " (%s)", SIZE(entry->limit_bytes));
	describe_fit(out, entry);
	if (entry->has_holders)
		print_held(out, process, entry, whole);
	else
		fputs("; who held the memory was not counted", out);
}

void describe_refusals(FILE *out, struct report_process *const *processes, size_t count)
{
	uint64_t refused = 0, recovered = 0;

	for (size_t i = 0; i < count; i++) {
		if (report_final_out_of_memory(processes[i]))
			return;
		refused = add_bounded(refused, processes[i]->refused);
		recovered = add_bounded(recovered, processes[i]->recovered);
	}
	if (!refused)
		return;
	fprintf(out, "; out of memory %s", COUNT(refused, "time"));
	if (recovered)
		fprintf(out, ", %s of them recovered", NUMBER(recovered));
}

static void print_holders(FILE *out, const struct report_out_of_memory *entry, bool verbose)
{
	fprintf(out, "  Held at that moment: %s\n", EXACT_SIZE(entry->tracked_bytes));
	describe_holders(out, &entry->held, verbose);
}

static void print_device(FILE *out, const struct report_process *process,
			 const struct report_out_of_memory *entry)
{
	const struct driver_memory_sample *sample = report_sample_near(process, entry);
	struct parked_sum parked = parked_of(process, entry);
	uint64_t rest;

	if (describe_parked(out, "  Parked: ", &parked, 0))
		fputc('\n', out);
	if (entry->has_free)
		fprintf(out, "  The driver reported %s of %s as free after the refusal\n",
			SIZE(entry->free_bytes),
			SIZE(entry->total_bytes));
	if (sample && sample->device_used)
		fprintf(out, "  Driver itself: %s; other processes: %s (NVML)\n",
			SIZE(driver_bytes(sample, entry)),
			SIZE(others_part(sample)));
	else if (sample)
		fprintf(out, "  Driver itself: %s (NVML)\n", SIZE(driver_bytes(sample, entry)));
	else if (rest_of(entry, &rest) &&
		 report_shares_memory(process, entry->site->device))
		fprintf(out, "  Driver itself, other processes, and the CPU, which shares this "
			"memory: %s\n", SIZE(rest));
	else if (rest_of(entry, &rest))
		fprintf(out, "  Driver itself and other processes: %s; `gpuleak run` measures "
			"each of them\n", SIZE(rest));
}

static void print_framework(FILE *out, const struct report_out_of_memory *entry)
{
	if (!entry->gave_up)
		return;
	eprintf(out, "  %s", entry->framework);
	fprintf(out, " gave up its request for %s; its tensors had %s of the %s in its blocks\n",
		SIZE(entry->framework_bytes), SIZE(entry->framework_allocated),
		SIZE(entry->framework_reserved));
}

static void print_request(FILE *out, const struct report_process *process,
			  const struct report_out_of_memory *entry)
{
	fprintf(out, "\nOut of memory (%s): ", report_outcome_word(report_outcome(process, entry)));
	if (entry->bytes)
		fputs(EXACT_SIZE(entry->bytes), out);
	else
		fputs("an unknown number of bytes", out);
	eprintf(out, " wanted by %s", entry->site->api);
	if (entry->site->device >= 0)
		fprintf(out, " on device %d", entry->site->device);
	fprintf(out, " after %s, refused by %s%s", TIME(entry->time_ns),
		entry->refuser == LEDGER_REFUSER_DRIVER ? "the " : "", refuser_of(entry));
	if (entry->times > 1)
		fprintf(out, " %s times in a row", NUMBER(entry->times));
	fputs(":\n", out);
}

static void print_all(FILE *out, const struct report_process *process,
		      const struct report_out_of_memory *entry, bool verbose)
{
	print_request(out, process, entry);
	describe_stack(out, entry->site->stack, verbose);
	print_framework(out, entry);
	if (entry->has_holders)
		print_holders(out, entry, verbose);
	else
		fputs("  The call sites that held the memory were not counted: too many requests "
		      "were refused, or a limit on address space (ulimit -v) leaves no room to "
		      "count\n", out);
	print_device(out, process, entry);
	describe_refused_fragmentation(out, entry, verbose);
}

static void print_briefly(FILE *out, const struct report_process *process,
			  const struct report_out_of_memory *entry, bool whole)
{
	fprintf(out, "\nOut of memory (%s): ",
		report_outcome_word(report_outcome(process, entry)));
	describe_out_of_memory(out, process, entry, whole);
	fputc('\n', out);
}

static void print_finding(FILE *out, const struct subject_view *view)
{
	const struct report_process *process = view->process;
	const struct report_out_of_memory *final = report_final_out_of_memory(process);
	bool is_long = final || process->leak_count || process->summary.errors;
	bool verbose = view->verbose;

	EACH_ITEM(process->out_of_memory, process->out_of_memory_count, entry) {
		if (entry == final || verbose)
			print_all(out, process, entry, verbose);
		else if (is_long && report_outcome(process, entry) != OUTCOME_RECOVERED)
			print_briefly(out, process, entry, view->verbose);
	}
	if (process->refused > process->out_of_memory_count && (final || verbose))
		fprintf(out, "%s requests ran out of memory; the first and the last ones are "
			"listed\n", NUMBER(process->refused));
}

/* ---- JSON ---- */

static json_t *known(bool is_known, uint64_t value)
{
	return is_known ? json_number(value) : json_null();
}

static json_t *framework_json(const struct report_out_of_memory *entry)
{
	return JSON_OBJECT(
		{ "name", json_text(entry->framework) },
		{ "requested_bytes", json_number(entry->framework_bytes) },
		{ "allocated_bytes", json_number(entry->framework_allocated) },
		{ "reserved_bytes", json_number(entry->framework_reserved) });
}

static json_t *entry_json(const void *item, const struct subject_view *view)
{
	const struct report_out_of_memory *entry = item;
	const struct report_process *process = view->process;
	const struct driver_memory_sample *sample = report_sample_near(process, entry);
	bool has_others = sample && sample->device_used;
	json_t *ret = JSON_OBJECT(
		{ "api", json_text(entry->site->api) },
		{ "requested_bytes", known(entry->bytes, entry->bytes) },
		{ "device", json_integer(entry->site->device) },
		{ "seconds", json_real((double)entry->time_ns / 1e9) },
		{ "outcome", json_string(report_outcome_word(report_outcome(process, entry))) },
		{ "injected", json_boolean(is_injected(entry)) },
		{ "refused_by", json_text(refuser_of(entry)) },
		{ "times", json_number(entry->times) },
		{ "limit_bytes", JSON_IF(entry->limit_bytes, json_number(entry->limit_bytes)) },
		{ "tracked_bytes", known(entry->has_holders, entry->tracked_bytes) },
		{ "driver_bytes", known(sample, sample ? driver_bytes(sample, entry) : 0) },
		{ "other_processes_bytes",
		  known(has_others, has_others ? others_part(sample) : 0) },
		{ "parked_bytes", JSON_IF(entry->parked_bytes, json_number(entry->parked_bytes)) },
		{ "free_bytes", known(entry->has_free, entry->free_bytes) },
		{ "total_bytes", known(entry->has_free, entry->total_bytes) },
		{ "framework", JSON_IF(entry->gave_up, framework_json(entry)) },
		{ "stack", json_stack(entry->site->stack) });

	json_add_holders(ret, &entry->held, view);
	json_add_fragmentation(ret, entry, view);
	JSON_ADD(ret,
		 { "site", JSON_IF(view->has_words, json_site(entry->site->stack)) },
		 { "told", JSON_IF(view->has_words,
				   JSON_PRINTED(to, describe_out_of_memory(to, process, entry,
									   false))) });
	return ret;
}

static void add_json(json_t *object, const struct subject_view *view)
{
	const struct report_process *process = view->process;

	if (process->refused > process->out_of_memory_count)
		json_set(object, "out_of_memory_count", json_number(process->refused));
}

static const struct figure rows[] = {
	{ FIGURE(report_process, refused), .metric = "out_of_memory_total",
	  .help = "Requests that were refused because memory ran out." },
	{ FIGURE(report_process, recovered), .metric = "out_of_memory_recovered_total",
	  .help = "Refused requests after which the same thread got as much memory." },
};

static const void *item(const struct report_process *process, size_t i, FILE *labels)
{
	(void)labels;
	return i == 0 ? process : NULL;
}

static const struct figures figures = { .prefix = "gpuleak_", FIGURES(rows), .item = item };

const struct subject subject_out_of_memory = {
	.build = build, .needs = &subject_parked, .chunks = CHUNK_BIT(OUT_OF_MEMORY),
	.only_if = PART(refused), .has_keys_always = true, .finding = print_finding,
	LIST("out_of_memory", out_of_memory, out_of_memory_count, .of_view = entry_json),
	.json = add_json, .figures = &figures,
};
