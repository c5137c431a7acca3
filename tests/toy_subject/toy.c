/* SPDX-License-Identifier: MIT
 *
 * A toy subject: how large the allocations of a process were. It is in no report of the product.
 */
#include "report/subjects/subject.h"

#include "report/describe/format_place.h"
#include "report/describe/json_helpers.h"
#include "report/model/builder.h"
#include "report/model/model.h"
#include "report/subjects/figures.h"
#include "report/subjects/judgement.h"
#include "report/util/number.h"

#define MEAN_MAX 4096

/* Call sites of memory. What a real subject reads is in struct report_process. */
static size_t site_count;

static void build(struct builder *b)
{
	struct ledger_walk walk = { 0 };

	site_count = 0;
	while (build_next_site(b, &walk))
		site_count++;
}

static uint64_t mean(const void *item)
{
	const struct report_summary *sum = item;

	return sum->allocated_blocks ? sum->allocated_bytes / sum->allocated_blocks : 0;
}

static const struct figure rows[] = {
	{ "mean_bytes", .value = mean, .help = "Bytes of the average allocation." },
	{ "allocations", FIGURE(report_summary, allocated_blocks), .help = "Allocations." },
};

static const void *item_of(const struct report_process *process, size_t i, FILE *labels)
{
	(void)labels;
	return i == 0 ? &process->summary : NULL;
}

static const struct figures figures = { .prefix = "gpuleak_toy_", FIGURES(rows), .item = item_of };

static void print_details(FILE *out, const struct subject_view *view)
{
	fprintf(out, "toy: %s of the average allocation; call sites: %zu\n",
		SIZE(mean(&view->process->summary)), site_count);
}

static void add_json(json_t *object, const struct subject_view *view)
{
	json_t *toy = json_object();

	figures_add_json(toy, &figures, &view->process->summary);
	json_set(object, "toy", toy);
}

static void add_reasons(struct judgement *judgement, const struct judge_input *input,
			const struct report_process *process)
{
	(void)input;
	if (mean(&process->summary) > MEAN_MAX)
		judgement_reason(judgement, "the average allocation is larger than %s",
				 SIZE(MEAN_MAX));
}

const struct subject subject_toy = {
	.build = build, .chunks = CHUNK_BIT(SITES), .only_if = PART(summary.allocated_blocks),
	.details = print_details, .json = add_json, .figures = &figures, .judge = add_reasons,
};
