/* SPDX-License-Identifier: MIT
 *
 * Applies the policy of --only-at: it must allow every call site that allocated, even if all
 * blocks were freed. Only a kind or a call can allow a site without a stack.
 */
#include <inttypes.h>
#include <stdbool.h>

#include "report/describe/kinds.h"
#include "report/symbols/fingerprint.h"
#include "report/gate/judge_internal.h"
#include "report/model/model.h"
#include "report/model/model_sites.h"
#include "report/gate/gate_rules.h"

static void only_at_reason(struct bench *bench, const struct report_process *p,
			   const struct report_site *site, const char *policy)
{
	char place[FORMAT_PLACE_MAX], who[FORMAT_PLACE_MAX];

	judge_reason(bench,
		     "%s allocated %s in %" PRIu64 " block%s (%s, %s) at %s, "
		     "which no rule in %s allows",
		     format_process(p, who), EXACT_SIZE(site->allocated_bytes),
		     site->allocated_blocks, plural(site->allocated_blocks), kind_words(site->kind),
		     site->api, format_place(site->stack, place), policy);
}

/* Call sites that already have a reason. If a site occurs again in another process, device or line,
 * it gets no second reason: `again` counts these cases. */
struct listed {
	uint64_t fingerprints[JUDGE_PLACES_MAX];
	size_t count;  /* number of different sites, including those beyond the array */
	size_t again;
};

static bool is_listed(struct listed *listed, const struct report_site *site)
{
	uint64_t fingerprint = report_fingerprint(site->api, site->kind, site->stack);
	size_t known = listed->count < JUDGE_PLACES_MAX ? listed->count : JUDGE_PLACES_MAX;

	for (size_t i = 0; i < known; i++)
		if (listed->fingerprints[i] == fingerprint)
			return true;
	if (listed->count < JUDGE_PLACES_MAX)
		listed->fingerprints[listed->count] = fingerprint;
	return false;
}

void judge_sites(struct bench *bench, const struct judge_input *input)
{
	const struct report *report = input->report;
	struct listed listed = { .count = 0 };

	if (!input->only_at)
		return;
	for (size_t i = 0; i < report->count; i++) {
		const struct report_process *p = report->processes[i];

		for (size_t j = 0; j < p->site_count; j++) {
			if (p->sites[j].again || only_at_allows(input->only_at, &p->sites[j]))
				continue;
			if (is_listed(&listed, &p->sites[j]))
				listed.again++;
			else if (listed.count++ < JUDGE_PLACES_MAX)
				only_at_reason(bench, p, &p->sites[j],
					       input->only_at->name);
		}
	}
	if (listed.again)
		judge_reason(bench,
			     "%zu more call site%s allocated memory that no rule in %s allows, in "
			     "functions that are already named: on other devices or lines, or in "
			     "other processes",
			     listed.again, plural(listed.again), input->only_at->name);
	if (listed.count > JUDGE_PLACES_MAX)
		judge_reason(bench, "%zu more places allocated memory that no rule in %s allows",
			     listed.count - JUDGE_PLACES_MAX, input->only_at->name);
}
