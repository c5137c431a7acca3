/* SPDX-License-Identifier: MIT
 *
 * Sites that accumulate come first, as leaks do. All others are only in verbose reports: what a
 * program holds while it needs it is no finding.
 */
#include "report/format/text/text_suballocations.h"

#include <stdint.h>
#include <string.h>

#include "report/analyze/ranks.h"
#include "report/describe/describe_stack.h"
#include "report/describe/describe_suballocations.h"
#include "report/model/model.h"
#include "report/model/model_suballocations.h"
#include "report/util/escape.h"
#include "report/util/number.h"

#define SITES_MAX 1000 /* JSON has all sites */
#define POOLS_MAX 16

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
	describe_pool(out, entry->live.cache, entry->live.device);
	fputs("), ", out);
	describe_trend(out, process, entry);
	fputs(", allocated at:\n", out);
	describe_stack(out, entry->live.stack);
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
		else if (shown++ < SITES_MAX)
			print_accumulating(out, process, entry);
		else
			rest++;
	}
	if (shared) {
		fputs("\nAnd ", out);
		describe_count(out, shared, "call site");
		fprintf(out, " that accumulate%s in other ranks, too: above\n",
			shared == 1 ? "s" : "");
	}
	if (rest) {
		fputs("\nAnd ", out);
		describe_count(out, rest, "more call site");
		fprintf(out, " that accumulate%s; --format json lists all\n",
			rest == 1 ? "s" : "");
	}
}

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

/* Live suballocations of one pool that do not accumulate. */
struct pool_total {
	const char *cache;
	uint64_t bytes, blocks;
};

static bool is_of(const struct report_suballocations *entry, const char *cache)
{
	return entry->live.blocks && !report_accumulates(entry) &&
	       same_text(entry->live.cache, cache);
}

/* Adds ENTRY to the total of its pool. Pools beyond the limit count as the last one. */
static size_t add_to_pool(struct pool_total pools[POOLS_MAX], size_t count,
			  const struct report_suballocations *entry)
{
	size_t at = 0;

	while (at < count && !same_text(pools[at].cache, entry->live.cache))
		at++;
	if (at == POOLS_MAX)
		at--;
	if (at == count)
		pools[count++] = (struct pool_total){ .cache = entry->live.cache };
	pools[at].bytes = add_bounded(pools[at].bytes, entry->live.bytes);
	pools[at].blocks = add_bounded(pools[at].blocks, entry->live.blocks);
	return count;
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

static void print_pool(FILE *out, const struct report_process *process,
		       const struct pool_total *pool)
{
	size_t shown = 0, rest = 0;

	fputs("\nLive inside the ", out);
	print_escaped(out, pool->cache ? pool->cache : "blocks of a cache");
	fputs(": ", out);
	describe_suballocations(out, pool->cache, pool->bytes, pool->blocks);
	fputs("; not leaks\n", out);
	for (size_t i = 0; i < process->suballocation_count; i++) {
		const struct report_suballocations *entry = &process->suballocations[i];

		if (!is_of(entry, pool->cache))
			continue;
		if (shown++ < SITES_MAX)
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
	struct pool_total pools[POOLS_MAX];
	size_t count = 0;

	for (size_t i = 0; i < process->suballocation_count; i++) {
		const struct report_suballocations *entry = &process->suballocations[i];

		if (entry->live.blocks && !report_accumulates(entry))
			count = add_to_pool(pools, count, entry);
	}
	for (size_t i = 0; i < count; i++)
		print_pool(out, process, &pools[i]);
}
