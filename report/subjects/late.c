/* SPDX-License-Identifier: MIT
 *
 * Blocks that were freed after the driver had begun to shut down, by call site.
 */
#include "report/subjects/subject.h"

#include "report/describe/describe_stack.h"
#include "report/describe/json_helpers.h"
#include "report/describe/json_values.h"
#include "report/describe/kinds.h"
#include "report/model/builder.h"
#include "report/model/model.h"
#include "report/subjects/subject_words.h"
#include "report/util/escape.h"
#include "report/util/number.h"

struct late_site {
	struct site_entry entry;
	uint64_t blocks;
};

static void build(struct builder *b)
{
	struct site_list sites = site_list(b, sizeof(struct late_site));
	struct report_process *process = b->process;
	struct ledger_walk walk = { 0 };
	const struct ledger_site *record;
	struct late_site *site;

	while ((record = build_next_site(b, &walk))) {
		if (!record->late)
			continue;
		site = site_list_get(&sites, intern_site(b, record));
		site->blocks = add_bounded(site->blocks, record->late);
	}
	process->late_count = sites.count;
	process->late = arena_alloc(b->arena, sites.count * sizeof(*process->late));
	EACH_SITE(&sites, site)
		process->late[--sites.count] =
			(struct report_late){ &site->entry.site->site, site->blocks };
}

#define LATE_MAX 1000

static void print_details(FILE *out, const struct subject_view *view)
{
	const struct report_process *process = view->process;

	for (size_t i = 0; view->verbose && i < process->late_count && i < LATE_MAX; i++) {
		const struct report_late *late = &process->late[i];

		fprintf(out, "\nFreed after the driver had begun to shut down: %s block%s (",
			NUMBER(late->blocks), plural(late->blocks));
		eprintf(out, "%s, %s), allocated at:\n", kind_words(late->site->kind),
			late->site->api);
		describe_stack(out, late->site->stack, view->verbose);
	}
}

static json_t *late_json(const void *item)
{
	const struct report_late *late = item;

	return JSON_OBJECT(
		{ "count", json_number(late->blocks) },
		{ "kind", json_text(late->site->kind) },
		{ "device", json_integer(late->site->device) },
		{ "allocated", JSON_OBJECT(
			{ "api", json_text(late->site->api) },
			{ "stack", json_stack(late->site->stack) }) });
}

static void add_json(json_t *object, const struct subject_view *view)
{
	const struct report_process *process = view->process;

	json_set(object, "after_shutdown",
		 JSON_LIST(process->late, process->late_count, late_json));
}

const struct subject subject_late = { .build = build, .only_if = PART(late_count),
				      .details = print_details, .json = add_json };
