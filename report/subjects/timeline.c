/* SPDX-License-Identifier: MIT
 *
 * Live bytes over time: the total, and by kind of memory and device. Only JSON has them. Also what
 * was allocated at a moment (--at), and what changed between two moments (--between), by call site:
 * from the trace. Where the ledger has no trace or the moment is before it, the samples answer, and
 * the report states that. Must not interpolate.
 */
#include "report/subjects/subject.h"

#include "ledger/shared.h"
#include "report/describe/describe_stack.h"
#include "report/describe/format_place.h"
#include "report/describe/json_helpers.h"
#include "report/describe/json_values.h"
#include "report/load/load.h"
#include "report/model/builder.h"
#include "report/model/lives.h"
#include "report/model/model.h"
#include "report/model/model_holders.h"
#include "report/subjects/held.h"
#include "report/subjects/subject_words.h"
#include "report/util/escape.h"
#include "report/util/number.h"

/* Reads one column of all samples. */
static struct report_series build_part(struct builder *b, const struct ledger_parts *parts,
				       uint32_t column)
{
	struct report_series ret = {
		.kind = build_text(b, parts->column[column].kind),
		.device = parts->column[column].device,
	};
	struct ledger_walk walk = { 0 };
	const struct ledger_moment *moment;

	if (!ret.kind)
		ret.kind = "other";
	/* skip the record with the columns */
	ledger_next(b->view, &walk, LEDGER_CHUNK_PARTS, sizeof(*moment));
	while ((moment = ledger_next(b->view, &walk, LEDGER_CHUNK_PARTS, sizeof(*moment))))
		*ARENA_ADD(b->arena, ret.samples, ret.count) = (struct report_sample){
			moment->time_ns, moment->live_bytes[column] };
	return ret;
}

static void build_parts(struct builder *b)
{
	struct report_timeline *timeline = &b->process->timeline;
	struct ledger_walk walk = { 0 };
	const struct ledger_parts *parts =
		ledger_next(b->view, &walk, LEDGER_CHUNK_PARTS, sizeof(*parts));
	uint32_t columns = parts ? shared_load_acquire(parts->columns) : 0;

	if (columns > LEDGER_COLUMNS ||
	    !ledger_next(b->view, &walk, LEDGER_CHUNK_PARTS, sizeof(struct ledger_moment)))
		return;
	for (uint32_t i = 0; i < columns; i++)
		*ARENA_ADD(b->arena, timeline->parts, timeline->part_count) =
			build_part(b, parts, i);
}

static void build(struct builder *b)
{
	const struct ledger_header *header = ledger_header(b->view);
	struct report_timeline *timeline = &b->process->timeline;

	if (header->ended != LEDGER_RUNNING && header->end_mono_ns > header->start_mono_ns)
		timeline->end_ns = header->end_mono_ns - header->start_mono_ns;
	timeline->peak_ns = header->peak_mono_ns;
	timeline->total.device = -1;
	timeline->total.samples =
		build_samples(b, LEDGER_CHUNK_TIMELINE, &timeline->total.count);
	build_parts(b);
}

static json_t *series_json(const void *item)
{
	const struct report_series *series = item;

	return JSON_OBJECT(
		{ "kind", json_text(series->kind) },
		{ "device", json_integer(series->device) },
		{ "live", JSON_LIST(series->samples, series->count, json_sample) });
}

static void add_json(json_t *object, const struct subject_view *view)
{
	const struct report_timeline *timeline = &view->process->timeline;
	const struct report_series *total = &timeline->total;

	json_set(object, "timeline", JSON_OBJECT(
		{ "start_real_ns", json_number(view->process->start_real_ns) },
		{ "end_ns", json_number(timeline->end_ns) },
		{ "peak_ns", json_number(timeline->peak_ns) },
		{ "live", JSON_LIST(total->samples, total->count, json_sample) },
		{ "parts", JSON_LIST(timeline->parts, timeline->part_count, series_json) }));
}

const struct subject subject_timeline = { .build = build, .only_if = PART(timeline.total.count),
					  .json = add_json };

#define NONE UINT64_MAX /* a time that is not there */

/* ---- moments ---- */

/* The amounts of one struct report_moment_sum. */
struct summing {
	struct report_moment_sum *to;
	struct site_list sites;
};

static struct summing sum_begin(struct builder *b, struct report_moment_sum *to)
{
	return (struct summing){ to, held_sites(b) };
}

static void sum_add(struct summing *sum, const struct life *life)
{
	held_site_add(&sum->sites, life->site, life->inside, life->bytes, 1);
	if (life->inside)
		return;
	sum->to->bytes = add_bounded(sum->to->bytes, life->bytes);
	sum->to->blocks++;
}

/* DIVIDED: the bytes of suballocations are subtracted from the blocks that contain them. */
static void sum_end(struct summing *sum, bool divided)
{
	uint64_t sums[2] = { 0, 0 };

	held_sites_list(&sum->sites, &sum->to->held, sums);
	if (divided)
		report_divide_holders(sum->sites.b, &sum->to->held, sums[1]);
}

static void read_moment(struct builder *b, const struct lives *lives,
			struct report_moment *moment)
{
	struct summing live = sum_begin(b, &moment->live);

	for (size_t i = 0; i < lives->count; i++)
		if (lives->list[i].from_ns <= moment->to_ns && moment->to_ns < lives->list[i].to_ns)
			sum_add(&live, &lives->list[i]);
	sum_end(&live, true);
}

/* Returns true if NS is after the start of MOMENT, and not after its end. Time 0 is after the start
 * of the process. */
static bool is_between(const struct report_moment *moment, uint64_t ns)
{
	return (moment->from_ns < ns || !moment->from_ns) && ns <= moment->to_ns;
}

static void read_change(struct builder *b, const struct lives *lives,
			struct report_moment *moment)
{
	struct summing allocated = sum_begin(b, &moment->allocated);
	struct summing freed = sum_begin(b, &moment->freed);
	struct summing left = sum_begin(b, &moment->left);

	for (size_t i = 0; i < lives->count; i++) {
		const struct life *life = &lives->list[i];
		bool begins = is_between(moment, life->from_ns) && !life->is_continued;

		if (begins)
			sum_add(&allocated, life);
		if (is_between(moment, life->to_ns) && !life->continues)
			sum_add(&freed, life);
		if (begins && life->to_ns > moment->to_ns)
			sum_add(&left, life);
	}
	sum_end(&allocated, false);
	sum_end(&freed, false);
	sum_end(&left, false);
}

/* Finds the samples around NS. */
static void find_samples(const struct report_series *total, uint64_t ns,
			 struct report_sample *before, struct report_sample *after)
{
	*before = *after = (struct report_sample){ NONE, 0 };
	for (size_t i = 0; i < total->count; i++) {
		const struct report_sample *sample = &total->samples[i];

		if (sample->time_ns <= ns && (before->time_ns == NONE ||
					      sample->time_ns >= before->time_ns))
			*before = *sample;
		if (sample->time_ns > ns && sample->time_ns < after->time_ns)
			*after = *sample;
	}
}

static void add_moment(struct builder *b, uint64_t from_ns, uint64_t to_ns)
{
	const struct report_series *total = &b->process->timeline.total;
	const struct lives *lives = lives_build(b);
	struct report_moment *moment =
		ARENA_ADD(b->arena, b->process->moments, b->process->moment_count);

	*moment = (struct report_moment){ .from_ns = from_ns, .to_ns = to_ns,
					  .trace_ns = lives->begin_ns,
					  .is_traced = lives->begin_ns <= from_ns };
	find_samples(total, from_ns, &moment->before[0], &moment->after[0]);
	find_samples(total, to_ns, &moment->before[1], &moment->after[1]);
	if (!moment->is_traced)
		return;
	if (from_ns == to_ns)
		read_moment(b, lives, moment);
	else
		read_change(b, lives, moment);
}

#define MS ((uint64_t)1000000)

static uint64_t round_up(uint64_t ns)
{
	return ns / MS * MS + (ns % MS ? MS : 0);
}

/* Divides the time of the trace. The moments are whole milliseconds, as those of --at. */
static void build_grid(struct builder *b)
{
	const struct lives *lives = lives_build(b);
	struct report_process *process = b->process;
	uint64_t step, from = round_up(lives->begin_ns < NONE - MS ? lives->begin_ns : 0);

	if (lives->begin_ns == NONE || lives->end_ns <= from || lives->end_ns > NONE / 2)
		return;
	step = round_up((lives->end_ns - from) / b->ledger->moments + 1);
	for (uint64_t to = from; to < lives->end_ns + step; from = to, to += step) {
		struct report_moment *moment =
			ARENA_ADD(b->arena, process->grid, process->grid_count);

		*moment = (struct report_moment){ .from_ns = from, .to_ns = to, .is_traced = true,
						  .trace_ns = lives->begin_ns };
		read_moment(b, lives, moment);
		read_change(b, lives, moment);
	}
}

static void build_moments(struct builder *b)
{
	const struct load_choice *choice = b->choice;

	if (choice->has_at)
		add_moment(b, choice->at_ns, choice->at_ns);
	if (choice->has_between)
		add_moment(b, choice->between_ns[0], choice->between_ns[1]);
	if (b->ledger->moments && ledger_trace_oldest(b->view))
		build_grid(b);
	if (b->ledger->whole_trace)
		b->process->lives = lives_look_up(b);
}

static void print_sample(FILE *out, const struct report_sample *before,
			 const struct report_sample *after)
{
	if (before->time_ns != NONE)
		fprintf(out, "%s at %s", SIZE(before->bytes), TIME(before->time_ns));
	if (before->time_ns != NONE && after->time_ns != NONE)
		fputs(" and ", out);
	if (after->time_ns != NONE)
		fprintf(out, "%s at %s", SIZE(after->bytes), TIME(after->time_ns));
	if (before->time_ns == NONE && after->time_ns == NONE)
		fputs("no sample", out);
}

/* Prints the samples of the timeline, and why the trace does not answer. */
static void print_samples(FILE *out, const struct report_moment *moment)
{
	fputs("  The nearest samples of the timeline: ", out);
	print_sample(out, &moment->before[0], &moment->after[0]);
	if (moment->from_ns != moment->to_ns) {
		fputs("; ", out);
		print_sample(out, &moment->before[1], &moment->after[1]);
	}
	if (moment->trace_ns == NONE)
		fputs(".\n  The ledger has no trace: run the program with --trace 64MiB to see "
		      "call sites.\n", out);
	else
		fprintf(out, ".\n  The trace begins at %s: run the program with a larger --trace "
			"to see earlier call sites.\n", TIME(moment->trace_ns));
}

static void print_sum(FILE *out, const char *what, const struct report_moment_sum *sum,
		      bool verbose)
{
	fprintf(out, "  %s: %s in %s\n", what, EXACT_SIZE(sum->bytes),
		COUNT(sum->blocks, "block"));
	describe_holders(out, &sum->held, verbose);
}

void describe_moments(FILE *out, const struct report_process *process, bool verbose)
{
	const uint64_t end_ns = process->timeline.end_ns;

	for (size_t i = 0; i < process->moment_count; i++) {
		const struct report_moment *moment = &process->moments[i];
		bool is_moment = moment->from_ns == moment->to_ns;

		eprintf(out, "gpuleak: %s (pid %d) ", process->program, process->pid);
		fprintf(out, is_moment ? "at %s" : "from %s", TIME(moment->from_ns));
		if (!is_moment)
			fprintf(out, " to %s", TIME(moment->to_ns));
		fputs(moment->is_traced ? ", from the trace:\n" : ":\n", out);
		if (end_ns && moment->to_ns > end_ns)
			fprintf(out, "  The process ended at %s.\n", TIME(end_ns));
		if (!moment->is_traced) {
			print_samples(out, moment);
		} else if (is_moment) {
			print_sum(out, "Allocated", &moment->live, verbose);
		} else {
			print_sum(out, "Allocated in this time", &moment->allocated, verbose);
			print_sum(out, "Freed in this time", &moment->freed, verbose);
			print_sum(out, "Allocated in this time and not freed in it", &moment->left,
				  verbose);
		}
	}
	describe_notes(out, process->notes, process->note_count);
}

static json_t *seconds_json(uint64_t ns)
{
	return ns == NONE ? json_null() : json_real((double)ns / 1e9);
}

static json_t *sample_or_null(const struct report_sample *sample)
{
	return sample->time_ns == NONE ? json_null() : json_sample(sample);
}

static json_t *samples_json(const struct report_moment *moment, int i)
{
	return JSON_ARRAY(sample_or_null(&moment->before[i]), sample_or_null(&moment->after[i]));
}

static json_t *sum_json(const struct report_moment_sum *sum, const struct subject_view *view)
{
	json_t *ret = JSON_OBJECT({ "bytes", json_number(sum->bytes) },
				  { "blocks", json_number(sum->blocks) });

	json_add_holders(ret, &sum->held, view);
	return ret;
}

static json_t *moment_json(const struct report_moment *moment, const struct subject_view *view)
{
	bool is_moment = moment->from_ns == moment->to_ns, traced = moment->is_traced;

	return JSON_OBJECT(
		{ "seconds", JSON_IF(is_moment, seconds_json(moment->from_ns)) },
		{ "from_seconds", JSON_IF(!is_moment, seconds_json(moment->from_ns)) },
		{ "to_seconds", JSON_IF(!is_moment, seconds_json(moment->to_ns)) },
		{ "source", json_string(traced ? "trace" : "timeline") },
		{ "trace_begins_seconds", seconds_json(moment->trace_ns) },
		{ "samples", samples_json(moment, 0) },
		{ "to_samples", JSON_IF(!is_moment, samples_json(moment, 1)) },
		{ "live", JSON_IF(is_moment && traced, sum_json(&moment->live, view)) },
		{ "allocated", JSON_IF(!is_moment && traced, sum_json(&moment->allocated, view)) },
		{ "freed", JSON_IF(!is_moment && traced, sum_json(&moment->freed, view)) },
		{ "left", JSON_IF(!is_moment && traced, sum_json(&moment->left, view)) });
}

/* The trace in the HTML page: call sites, and their amounts by moment. */
struct grid_json {
	const struct subject_view *view;
	struct report_arena arena;
	struct table numbers; /* of sites, by call site and whether it is the unused part */
	json_t *sites;
};

struct grid_site {
	uint64_t key[2];
	json_int_t number; /* plus 1 */
};

static json_t *amounts_json(struct grid_json *grid, const struct report_holders *held)
{
	json_t *ret = json_array();

	for (size_t i = 0; i < held->count; i++) {
		const struct report_leak *holder = &held->list[i];
		const uint64_t key[2] = { (uintptr_t)holder->site,
					  report_holder_is_unused(held, holder) };
		struct grid_site *site = table_intern(&grid->arena, &grid->numbers, key,
						      sizeof(key), sizeof(*site));

		if (!site->number) {
			json_array_append_new(grid->sites,
					      json_holder(holder, held, grid->view));
			site->number = (json_int_t)json_array_size(grid->sites);
		}
		json_array_append_new(ret, JSON_ARRAY(json_integer(site->number - 1),
						      json_number(holder->bytes),
						      json_number(holder->blocks)));
	}
	return ret;
}

static json_t *grid_json(const struct subject_view *view)
{
	const struct report_process *process = view->process;
	struct grid_json grid = { .view = view, .sites = json_array() };
	json_t *ns = json_array(), *live = json_array();
	json_t *allocated = json_array(), *freed = json_array();

	for (size_t i = 0; i < process->grid_count; i++) {
		const struct report_moment *moment = &process->grid[i];

		json_array_append_new(ns, json_number(moment->to_ns));
		json_array_append_new(live, amounts_json(&grid, &moment->live.held));
		json_array_append_new(allocated, amounts_json(&grid, &moment->allocated.held));
		json_array_append_new(freed, amounts_json(&grid, &moment->freed.held));
	}
	arena_finish(&grid.arena);
	return JSON_OBJECT({ "ns", ns }, { "sites", grid.sites }, { "live", live },
			   { "allocated", allocated }, { "freed", freed });
}

static void add_moments_json(json_t *object, const struct subject_view *view)
{
	if (view->has_words && view->process->grid_count)
		json_set(object, "trace", grid_json(view));
	for (size_t i = 0; i < view->process->moment_count; i++) {
		const struct report_moment *moment = &view->process->moments[i];

		json_set(object, moment->from_ns == moment->to_ns ? "at" : "between",
			 moment_json(moment, view));
	}
}

const struct subject subject_moments = { .build = build_moments, .needs = &subject_timeline,
					 .json = add_moments_json };
