/* SPDX-License-Identifier: MIT
 *
 * Applies the gate to memory that ended with its context: GPULEAK_GATE_CONTEXT_ENDS. What the
 * baseline does not have and no budget covers must be nothing; --max-leaked-bytes allows none.
 */
#include <inttypes.h>

#include "report/gate/judge_internal.h"
#include "report/model/model.h"
#include "report/util/number.h"

void judge_context_ends(struct bench *bench)
{
	struct spent spent = { 0 };

	for (size_t i = 0; i < bench->charges.count; i++) {
		const struct leak_total *charge = &bench->charges.entries[i];

		if (charge->of == TOTALS_OF_CONTEXT_ENDS && !bench->covered[i])
			judge_spend(&spent, charge->keeps, charge->blocks,
				    charge->largest->site->stack);
	}
	if (spent.largest)
		judgement_reason(bench->judgement, "%" PRIu64 " block%s, %s ended with %s "
				 "context%s, 0 allowed (--gate-context-ends 0 allows it); most at "
				 "%s",
				 spent.blocks, plural(spent.blocks), EXACT_SIZE(spent.bytes),
				 spent.blocks == 1 ? "its" : "their",
				 bench->input->baseline ? " beyond the baseline" : "",
				 PLACE(spent.largest));
}

void judge_mention_context_ends(struct bench *bench)
{
	const struct report_summary *sum = &bench->input->report->summary;

	if (sum->ended_with_context_blocks && !bench->input->count_context_ends)
		judgement_reason(bench->judgement, "%s in %" PRIu64 " block%s ended with a "
				 "context, which does not count (--gate-context-ends 1 counts it)",
				 EXACT_SIZE(sum->ended_with_context_bytes),
				 sum->ended_with_context_blocks,
				 plural(sum->ended_with_context_blocks));
}
