/* SPDX-License-Identifier: MIT
 *
 * Sites that accumulate come first, as leaks do. Other live suballocations are only in verbose
 * reports: that a program has memory which it uses is no finding.
 */
#include "report/format/text/text_suballocations.h"

#include <stdint.h>
#include <string.h>

#include "report/analyze/ranks.h"
#include "report/describe/describe_keepers.h"
#include "report/describe/describe_stack.h"
#include "report/describe/describe_suballocations.h"
#include "report/model/model.h"
#include "report/model/model_suballocations.h"
#include "report/util/escape.h"
#include "report/util/number.h"

/* JSON has all sites */
#define ACCUMULATING_MAX 1000
#define LIVE_MAX 100 /* of each pool */

bool text_accumulates(const struct report_process *process)
{
	for (size_t i = 0; i < process->suballocation_count; i++)
		if (report_accumulates(&process->suballocations[i]))
			return true;
	return false;
}

static void print_accumulating(FILE *out, const struct report_process *process,
			       const struct report_suballocations *entry)
{
	fputs("\nAccumulating: ", out);
	describe_suballocations(out, entry->live.cache, entry->kept_bytes, entry->kept_blocks);
	fputs(" (", out);
	describe_pool(out, &entry->live, entry->live.device);
	fputs("), ", out);
	describe_trend(out, process, entry);
	fputs(", allocated at:\n", out);
	describe_stack(out, entry->live.stack);
	describe_keepers(out, entry->live.keepers);
}

void text_accumulating(FILE *out, const struct report_process *process, const struct ranks *ranks)
{
	size_t shown = 0, shared = 0, rest = 0;

	for (size_t i = 0; i < process->suballocation_count; i++) {
		const struct report_suballocations *entry = &process->suballocations[i];

		if (!report_accumulates(entry))
			continue;
		if (ranks && ranks_shares(ranks, &entry->live))
			shared++;
		else if (shown++ < ACCUMULATING_MAX)
			print_accumulating(out, process, entry);
		else
			rest++;
	}
	if (shared) {
		fputs("\nAnd ", out);
		describe_count(out, shared, "call site");
		fprintf(out, " that accumulate%s in other ranks, too: listed above\n",
			shared == 1 ? "s" : "");
	}
	if (rest) {
		fputs("\nAnd ", out);
		describe_count(out, rest, "more call site");
		fprintf(out, " that accumulate%s; --format json lists all\n",
			rest == 1 ? "s" : "");
	}
}

static void print_site(FILE *out, const struct report_process *process,
		       const struct report_suballocations *entry)
{
	fputs("  ", out);
	describe_suballocations(out, entry->live.cache, entry->live.bytes, entry->live.blocks);
	if (entry->live.device >= 0)
		fprintf(out, " (device %d)", entry->live.device);
	if (entry->trend != TREND_UNKNOWN) {
		fputs(", ", out);
		describe_trend(out, process, entry);
	}
	fputs(", allocated at:\n", out);
	describe_stack(out, entry->live.stack);
}

/* Prints the live suballocations of POOLS[INDEX]. */
static void print_pool(FILE *out, const struct report_process *process,
		       const struct suballocation_pool *pools, size_t count, size_t index)
{
	const struct suballocation_pool *pool = &pools[index];
	size_t shown = 0, rest = 0;
	char number[NUMBER_MAX];

	fputs("\nLive inside the ", out);
	print_escaped(out, pool->cache ? pool->cache : "blocks of a cache");
	fputs(": ", out);
	describe_suballocations(out, pool->cache, pool->bytes, pool->blocks);
	if (pool->accumulating)
		fprintf(out, ", %s of them at call sites that accumulate\n",
			format_number(pool->accumulating, number));
	else
		fputs("; not leaks\n", out);
	for (size_t i = 0; i < process->suballocation_count; i++) {
		const struct report_suballocations *entry = &process->suballocations[i];

		if (!entry->live.blocks || report_accumulates(entry) ||
		    suballocation_pool_of(pools, count, entry) != index)
			continue;
		if (shown++ < LIVE_MAX)
			print_site(out, process, entry);
		else
			rest++;
	}
	if (rest)
		fprintf(out, "  and %zu more call site%s; --format json lists all\n", rest,
			plural(rest));
}

void text_suballocations(FILE *out, const struct report_process *process)
{
	struct suballocation_pool pools[SUBALLOCATION_POOLS_MAX];
	size_t count = suballocation_pools(process, pools);

	for (size_t i = 0; i < count; i++)
		print_pool(out, process, pools, count, i);
}
