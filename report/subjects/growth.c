/* SPDX-License-Identifier: MIT
 *
 * Memory that keeps growing from step to step. Reads the steps of a ledger and finds the call sites
 * that keep growing. Prints these suspects, largest growth first, or one line that nothing grows.
 */
#include "report/subjects/common.h"

#include <inttypes.h>

#include "report/describe/kinds.h"
#include "report/model/growth_rule.h"
#include "report/subjects/figures.h"
#include "report/subjects/findings.h"
#include "report/subjects/judgement.h"
#include "report/suppress/suppress.h"

#define PER_HOUR_NS_MIN 10000000000u /* shorter times are not extrapolated to an hour */

/* Live bytes and blocks of one site at the steps FIRST, FIRST + 1 ... of the window. */
struct growth_site {
	struct site_entry entry;
	uint32_t ref; /* of the first of its records */
	uint64_t bytes[GROWTH_STEPS_MAX], blocks[GROWTH_STEPS_MAX];
	uint32_t unknown; /* bit n: the values at step n of the window are unknown */
};

struct window {
	struct site_list sites; /* struct growth_site */
	uint32_t first, count; /* number of the first step, and count of steps */
};

static struct growth_site *site_of(struct builder *b, struct window *window,
				   const struct ledger_growth *record)
{
	const struct ledger_site refs = { .api = record->api, .kind = record->kind,
					  .device = record->device, .stack = record->stack };
	struct growth_site *site = site_list_get(&window->sites, intern_site(b, &refs));

	if (!site->ref)
		site->ref = build_ref(b, record);
	return site;
}

static void add_numbers(struct growth_site *site, const struct window *window,
			const struct ledger_growth *record)
{
	for (uint32_t i = 0; i < window->count; i++) {
		uint32_t step = window->first + i;
		const struct ledger_growth_at *at = &record->at[step % LEDGER_GROWTH_STEPS];

		if (at->step == step) {
			site->bytes[i] = add_bounded(site->bytes[i], at->bytes);
			site->blocks[i] = add_bounded(site->blocks[i], at->blocks);
		} else if (step >= record->first_step) {
			site->unknown |= 1u << i;
		}
	}
}

static void read_sites(struct builder *b, struct window *window)
{
	LEDGER_EACH(growth, record, b->view)
		add_numbers(site_of(b, window, record), window, record);
}

/* ---- the growth rule ---- */

/* Returns the number of last steps of SITE that are known without a gap, and the first of them in
 * *RET_FIRST. Leaves out unknown values at the last two steps, because the writer may still be
 * changing them. */
static size_t known_steps(const struct growth_site *site, const struct window *window,
			  size_t *ret_first)
{
	size_t end = window->count, first;

	while (end && end + 2 > window->count && (site->unknown & 1u << (end - 1)))
		end--;
	for (first = end; first && !(site->unknown & 1u << (first - 1)); first--)
		;
	*ret_first = first;
	return end - first;
}

static bool is_constant(const struct growth_series *series, unsigned int intervals)
{
	const uint64_t *last = &series->values[series->count - 1];

	return last[0] == last[-(ptrdiff_t)intervals];
}

/* Stores the time of step NUMBER in *RET_NS and returns true. Returns false if it is unknown. */
static bool time_of(const struct report_growth *growth, uint32_t number, uint64_t *ret_ns)
{
	for (size_t i = growth->stored_count; i-- > 0;) {
		if (growth->steps[i].number != number)
			continue;
		*ret_ns = growth->steps[i].time_ns;
		return true;
	}
	return false;
}

static uint64_t per_hour(const struct report_growth *growth, uint32_t last, unsigned int intervals,
			 uint64_t per_step)
{
	uint64_t from, to;
	double ret;

	if (!time_of(growth, last, &to) || !time_of(growth, last - intervals, &from) ||
	    to < from + PER_HOUR_NS_MIN)
		return 0;
	ret = (double)per_step * intervals * 3600e9 / (double)(to - from);
	return ret < 1.8e19 ? (uint64_t)ret : UINT64_MAX;
}

/* Returns true if SITE is a suspect, and fills in *RET. */
static bool judge_site(const struct report_growth *growth, const struct window *window,
		       const struct growth_site *site, struct report_suspect *ret)
{
	struct growth_verdict bytes, blocks;
	struct growth_series counts;
	size_t first, last;

	*ret = (struct report_suspect){ .site = &site->entry.site->site, .ref = site->ref };
	ret->series.count = counts.count = known_steps(site, window, &first);
	if (!ret->series.count)
		return false;
	memcpy(ret->series.values, site->bytes + first, ret->series.count * sizeof(uint64_t));
	memcpy(counts.values, site->blocks + first, counts.count * sizeof(uint64_t));
	bytes = growth_judge(&ret->series);
	blocks = growth_judge(&counts);
	ret->intervals = bytes.intervals ? bytes.intervals : blocks.intervals;
	if (!bytes.intervals && (!blocks.intervals || !is_constant(&ret->series, blocks.intervals)))
		return false;
	last = first + ret->series.count - 1;
	ret->bytes = site->bytes[last];
	ret->blocks = site->blocks[last];
	ret->bytes_per_step = bytes.per_step;
	ret->blocks_per_step = blocks.per_step;
	ret->bytes_per_hour = per_hour(growth, window->first + (uint32_t)last, ret->intervals,
				       bytes.per_step);
	return true;
}

static int compare_suspects(const void *left, const void *right)
{
	const struct report_suspect *a = left, *b = right;

	return compare_numbers(b->bytes_per_step, a->bytes_per_step)
	       ?: compare_numbers(b->blocks_per_step, a->blocks_per_step)
	       ?: compare_numbers(a->ref, b->ref);
}

static void find_suspects(struct builder *b, const struct window *window,
			  struct report_growth *growth)
{
	const struct growth_site *site;
	struct report_suspect one;

	EACH_SITE(&window->sites, site) {
		int index;

		if (!judge_site(growth, window, site, &one))
			continue;
		index = suppressions_match(b->suppressions, one.site->stack->frames,
					   one.site->stack->count);
		if (index >= 0) {
			suppressions_count(b->suppressions, index, 0, 0);
			growth->suppressed++;
		} else {
			*ARENA_ADD(b->arena, growth->suspects, growth->suspect_count) = one;
		}
	}
	SORT(growth->suspects, growth->suspect_count, compare_suspects);
}

/* ---- steps ---- */

static int compare_steps(const void *left, const void *right)
{
	const struct report_step *a = left, *b = right;

	return compare_numbers(a->number, b->number);
}

static void read_steps(struct builder *b, struct report_growth *growth)
{
	struct ledger_walk walk = { 0 };
	const struct ledger_step *record;

	while (growth->stored_count < LEDGER_STEPS_MAX &&
	       (record = ledger_next_step(b->view, &walk))) {
		size_t length = strnlen(record->label, sizeof(record->label));

		if (!record->number)
			continue;
		*ARENA_ADD(b->arena, growth->steps, growth->stored_count) = (struct report_step){
			record->number, record->time_ns, record->live_bytes, record->live_blocks,
			length ? arena_text(b->arena, record->label, length) : NULL,
		};
		if (record->number >= growth->step_count) {
			growth->step_count = record->number;
			growth->lost = record->lost;
		}
	}
	SORT(growth->steps, growth->stored_count, compare_steps);
}

static void build(struct builder *b)
{
	struct report_growth *growth = arena_alloc(b->arena, sizeof(*growth));
	struct window window = { site_list(b, sizeof(struct growth_site)), 0, 0 };

	read_steps(b, growth);
	if (!growth->step_count)
		return;
	b->process->growth = growth;
	window.count = growth->step_count < GROWTH_STEPS_MAX ? (uint32_t)growth->step_count
							     : GROWTH_STEPS_MAX;
	window.first = (uint32_t)growth->step_count - window.count + 1;
	read_sites(b, &window);
	find_suspects(b, &window, growth);
}

/* ---- text and JSON ---- */

#define SUSPECTS_MAX 20

void describe_growth_rate(FILE *out, const struct report_suspect *suspect)
{
	if (kind_is_object(suspect->site->kind))
		fprintf(out, "%s per step", OBJECTS(suspect->blocks_per_step, suspect->site->kind));
	else if (suspect->bytes_per_step)
		fprintf(out, "%s per step", SIZE(suspect->bytes_per_step));
	else
		fprintf(out, "%s block%s of no bytes per step", NUMBER(suspect->blocks_per_step),
			plural(suspect->blocks_per_step));
	if (suspect->bytes_per_hour)
		fprintf(out, " (%s per hour)", SIZE(suspect->bytes_per_hour));
}

static void print_suspect(FILE *out, const struct report_suspect *suspect, bool whole)
{
	fputs("gpuleak: suspect: ", out);
	describe_growth_rate(out, suspect);
	fputs(" at ", out);
	describe_place_and_caller(out, suspect->site->stack, whole);
	eprintf(out, ", %s (%s", suspect->site->api, kind_words(suspect->site->kind));
	if (suspect->site->device >= 0)
		fprintf(out, ", device %d", suspect->site->device);
	fprintf(out, "): grew over the last %u steps, to ", suspect->intervals);
	if (kind_is_object(suspect->site->kind))
		fprintf(out, "%s\n", OBJECTS(suspect->blocks, suspect->site->kind));
	else
		fprintf(out, "%s in %s block%s\n", SIZE(suspect->bytes),
			NUMBER(suspect->blocks), plural(suspect->blocks));
}

static void print_steps(FILE *out, const struct report_growth *growth)
{
	const struct report_step *last = &growth->steps[growth->stored_count - 1];

	fprintf(out, "gpuleak: %" PRIu64 " step%s marked", growth->step_count,
		plural(growth->step_count));
	if (growth->stored_count && last->label)
		eprintf(out, ", the last one \"%s\"", last->label);
}

static void print_finding(FILE *out, const struct subject_view *view)
{
	const struct report_growth *growth = view->process->growth;

	fputs(view->is_wrong ? "\n" : "", out);
	for (size_t i = 0; i < growth->suspect_count && i < SUSPECTS_MAX; i++)
		print_suspect(out, &growth->suspects[i], view->verbose);
	if (growth->suspect_count > SUSPECTS_MAX)
		fprintf(out, "gpuleak: and %zu smaller suspects\n",
			growth->suspect_count - SUSPECTS_MAX);
	print_steps(out, growth);
	if (growth->step_count < GROWTH_STEPS_MIN)
		fprintf(out, ": growth is reported from %u steps on\n", GROWTH_STEPS_MIN);
	else if (growth->suspect_count == 0 && !growth->suppressed)
		fputs(", nothing keeps growing\n", out);
	else
		fputc('\n', out);
	if (growth->suppressed)
		fprintf(out, "gpuleak: %" PRIu64 " more suspect%s suppressed\n", growth->suppressed,
			growth->suppressed == 1 ? " is" : "s are");
	if (growth->lost)
		fputs("note: the ledger had no room for the growth of some call sites, so these "
		      "may grow, too\n", out);
}

static json_t *step_json(const void *item)
{
	const struct report_step *step = item;

	return JSON_OBJECT(
		{ "number", json_integer(step->number) },
		{ "label", json_text(step->label) },
		{ "time_ns", json_number(step->time_ns) },
		{ "live_bytes", json_number(step->live_bytes) },
		{ "live_blocks", json_number(step->live_blocks) });
}

static json_t *number_json(const void *number)
{
	return json_number(*(const uint64_t *)number);
}

static json_t *suspect_json(const void *item)
{
	const struct report_suspect *suspect = item;

	return JSON_OBJECT(
		JSON_SITE(suspect->site),
		{ "bytes", json_number(suspect->bytes) },
		{ "blocks", json_number(suspect->blocks) },
		{ "bytes_per_step", json_number(suspect->bytes_per_step) },
		{ "blocks_per_step", json_number(suspect->blocks_per_step) },
		{ "bytes_per_hour", json_number(suspect->bytes_per_hour) },
		{ "grew_in_steps", json_integer(suspect->intervals) },
		{ "bytes_at_steps", JSON_LIST(suspect->series.values, suspect->series.count,
					      number_json) },
		{ "stack", json_stack(suspect->site->stack) });
}

static void add_json(json_t *object, const struct subject_view *view)
{
	const struct report_growth *growth = view->process->growth;

	json_set(object, "growth", JSON_OBJECT(
		{ "step_count", json_number(growth->step_count) },
		{ "suspects", JSON_LIST(growth->suspects, growth->suspect_count, suspect_json) },
		{ "suppressed", json_number(growth->suppressed) },
		{ "not_judged", json_number(growth->lost) },
		{ "steps", JSON_LIST(growth->steps, growth->stored_count, step_json) }));
}

/* ---- metrics ---- */

static const struct figure rows[] = {
	{ FIGURE(report_suspect, bytes), .metric = "bytes",
	  .help = "Bytes that are allocated now, by call site that grows." },
	{ FIGURE(report_suspect, blocks), .metric = "blocks",
	  .help = "Blocks that are allocated now, by call site that grows." },
	{ FIGURE(report_suspect, bytes_per_step), .metric = "bytes_per_step",
	  .help = "Bytes by which a call site grows in one step." },
	{ FIGURE(report_suspect, blocks_per_step), .metric = "blocks_per_step",
	  .help = "Blocks by which a call site grows in one step." },
};

static struct finding name_of(const struct report_site *site)
{
	return (struct finding){ .stack = site->stack, .fingerprint = report_fingerprint(
					site->api, site->kind, site->stack) };
}

static const void *item(const struct report_process *process, size_t i, FILE *labels)
{
	const struct report_growth *growth = process->growth;
	struct finding name;

	if (!growth || i >= growth->suspect_count || i >= METRIC_SITES_MAX)
		return NULL;
	name = name_of(growth->suspects[i].site);
	for (size_t j = 0; labels && j <= i; j++)
		name.ordinal += name_of(growth->suspects[j].site).fingerprint == name.fingerprint;
	if (labels)
		metric_site(labels, growth->suspects[i].site, &name);
	return &growth->suspects[i];
}

static const struct figures figures = { .prefix = "gpuleak_suspect_", FIGURES(rows), .item = item,
					.is_optional = true };

/* ---- gate ---- */

static void growth_reason(struct judgement *judgement, const char *who,
			  const struct report_suspect *suspect, uint64_t allowed)
{
	const struct report_frame *frame = report_stack_culprit(suspect->site->stack);
	const char *what = frame && frame->function ? frame->function : suspect->site->api;

	if (kind_is_object(suspect->site->kind)) {
		judgement_reason(judgement, "%s in %s grows by %s per step, 0 allowed", what, who,
				 OBJECTS(suspect->blocks_per_step, suspect->site->kind));
		return;
	}
	judgement_reason(judgement, "memory allocated by %s in %s grows by %s per step, %s allowed",
			 what, who, EXACT_SIZE(suspect->bytes_per_step),
			 ALLOWED(allowed));
}

static bool fails(const struct judge_input *input, const struct report_suspect *suspect)
{
	if (kind_is_object(suspect->site->kind))
		return input->count_objects;
	return !input->max_growth || suspect->bytes_per_step > input->max_growth;
}

/* A process with too few steps fails. A process without allocations passes, and one to which
 * gpuleak attached leaves the gate nothing to judge. */
static void add_reasons(struct judgement *judgement, const struct judge_input *input,
			const struct report_process *p)
{
	const struct report_growth *growth = p->growth;
	uint64_t steps = growth ? growth->step_count : 0;
	char who[FORMAT_PLACE_MAX];

	if (!(input->growth_wanted || p->attached) ||
	    (!growth && p->summary.allocated_blocks == 0))
		return;
	format_process(p, who);
	if (steps < GROWTH_STEPS_MIN && (p->summary.allocated_blocks || !p->attached))
		judgement_reason(judgement, "%s marked %" PRIu64 " step%s: growth is judged from "
				 "%u steps on", who, steps, plural(steps), GROWTH_STEPS_MIN);
	if (growth && growth->lost)
		judgement_reason(judgement, "%s: the ledger had no room for the growth of some "
				 "call sites, so these may grow, too", who);
	for (size_t i = 0; growth && i < growth->suspect_count; i++)
		if (fails(input, &growth->suspects[i]))
			growth_reason(judgement, who, &growth->suspects[i], input->max_growth);
}

static bool is_wrong(const struct report_process *process)
{
	return process->growth->suspect_count != 0;
}

const struct subject subject_growth = {
	.build = build, .chunks = CHUNK_BIT(STEPS), .only_if = PART(growth),
	.finding = print_finding, .is_wrong = is_wrong, .json = add_json, .judge = add_reasons,
	.figures = &figures,
};
