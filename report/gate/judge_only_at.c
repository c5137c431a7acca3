/* SPDX-License-Identifier: MIT
 *
 * Applies the policy of --only-at: it must allow every call site that allocated, even if all
 * blocks were freed. Only a kind or a call can allow a site without a stack.
 */
#include <inttypes.h>
#include <stdbool.h>

#include "report/describe/kinds.h"
#include "report/gate/judge_internal.h"
#include "report/model/model.h"
#include "report/gate/gate_rules.h"

/* Call sites that already have a reason. If a site occurs again in another process, device or line,
 * it gets no second reason: `again` counts these cases. */
struct listed {
	uint64_t fingerprints[JUDGE_PLACES_MAX];
	size_t count;  /* number of different sites, including those beyond the array */
	size_t again;
};

static bool is_listed(struct listed *listed, const struct report_site *site)
{
	uint64_t fingerprint = report_site_fingerprint(site);
	size_t known = listed->count < JUDGE_PLACES_MAX ? listed->count : JUDGE_PLACES_MAX;

	for (size_t i = 0; i < known; i++)
		if (listed->fingerprints[i] == fingerprint)
			return true;
	if (listed->count < JUDGE_PLACES_MAX)
		listed->fingerprints[listed->count] = fingerprint;
	return false;
}

static void judge_site(struct bench *bench, struct listed *listed, const struct report_process *p,
		       const struct report_site_sums *sums)
{
	const struct pattern_file *policy = bench->input->only_at;
	const struct report_site *site = sums->site;

	if (sums->again || only_at_allows(policy, site))
		return;
	if (is_listed(listed, site))
		listed->again++;
	else if (listed->count++ < JUDGE_PLACES_MAX)
		judgement_reason(bench->judgement, "%s allocated %s in %" PRIu64 " block%s "
				 "(%s, %s) at %s, which no rule in %s allows", PROCESS(p),
				 EXACT_SIZE(sums->allocated_bytes), sums->allocated_blocks,
				 plural(sums->allocated_blocks), kind_words(site->kind), site->api,
				 PLACE(site->stack), policy->name);
}

void judge_only_at(struct bench *bench)
{
	const struct report *report = bench->input->report;
	const struct pattern_file *policy = bench->input->only_at;
	struct listed listed = { .count = 0 };

	for (size_t i = 0; policy && i < report->count; i++)
		for (size_t j = 0; j < report->processes[i]->site_count; j++)
			judge_site(bench, &listed, report->processes[i],
				   &report->processes[i]->sites[j]);
	if (listed.again)
		judgement_reason(bench->judgement,
				 "%zu more call site%s allocated memory that no rule in %s allows, "
				 "in functions that are already named: on other devices or lines, "
				 "or in other processes",
				 listed.again, plural(listed.again), policy->name);
	if (listed.count > JUDGE_PLACES_MAX)
		judgement_reason(bench->judgement,
				 "%zu more places allocated memory that no rule in %s allows",
				 listed.count - JUDGE_PLACES_MAX, policy->name);
}
