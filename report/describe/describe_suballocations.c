/* SPDX-License-Identifier: MIT
 *
 * The words for suballocations are only in this file.
 */
#include "report/describe/describe_suballocations.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "report/describe/describe_stack.h"
#include "report/model/model.h"
#include "report/model/model_holders.h"
#include "report/model/model_suballocations.h"
#include "report/util/escape.h"
#include "report/util/number.h"

#define RATE_MAX 1e12 /* a larger rate is impossible: the ledger is damaged */

static const struct {
	const char *cache, *word;
} words[] = {
	{ "PyTorch caching allocator", "tensor" },
};

const char *suballocation_word(const char *cache)
{
	for (size_t i = 0; cache && i < sizeof(words) / sizeof(words[0]); i++)
		if (strcmp(words[i].cache, cache) == 0)
			return words[i].word;
	return "block";
}

const char *describe_unit(const struct report_leak *leak)
{
	return report_is_suballocation(leak) ? suballocation_word(leak->cache) : "block";
}

const char *suballocation_trend_word(const struct report_suballocations *entry)
{
	switch (entry->trend) {
	case TREND_CONSTANT:
		return "constant";
	case TREND_FILLED:
		return "filled";
	case TREND_ACCUMULATING:
		return "accumulating";
	default:
		return NULL;
	}
}

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

size_t suballocation_pool_of(const struct suballocation_pool *pools, size_t count,
			     const struct report_suballocations *entry)
{
	size_t at = 0;

	while (at < count && !same_text(pools[at].cache, entry->live.cache))
		at++;
	return at < SUBALLOCATION_POOLS_MAX ? at : SUBALLOCATION_POOLS_MAX - 1;
}

size_t suballocation_pools(const struct report_process *process,
			   struct suballocation_pool ret[SUBALLOCATION_POOLS_MAX])
{
	size_t count = 0;

	for (size_t i = 0; i < process->suballocation_count; i++) {
		const struct report_suballocations *entry = &process->suballocations[i];
		size_t at = suballocation_pool_of(ret, count, entry);

		if (!entry->live.blocks)
			continue;
		if (at == count)
			ret[count++] = (struct suballocation_pool){ .cache = entry->live.cache };
		ret[at].bytes = add_bounded(ret[at].bytes, entry->live.bytes);
		ret[at].blocks = add_bounded(ret[at].blocks, entry->live.blocks);
		if (report_accumulates(entry))
			ret[at].accumulating = add_bounded(ret[at].accumulating,
							   entry->live.blocks);
	}
	return count;
}

void describe_suballocations(FILE *out, const char *cache, uint64_t bytes, uint64_t blocks)
{
	describe_bytes(out, bytes);
	fputs(" in ", out);
	describe_count(out, blocks, suballocation_word(cache));
}

/* Prints "2 per second", "1.5 per minute". */
static void print_rate(FILE *out, double per_second)
{
	static const struct {
		double seconds;
		const char *word;
	} units[] = { { 1, "second" }, { 60, "minute" }, { 3600, "hour" } };
	char number[NUMBER_MAX];
	size_t unit = 0;
	uint64_t tenths;

	while (unit < 2 && per_second * units[unit].seconds < 0.95)
		unit++;
	tenths = (uint64_t)(per_second * units[unit].seconds * 10 + 0.5);
	if (tenths < 100 && tenths % 10)
		fprintf(out, ", %" PRIu64 ".%" PRIu64, tenths / 10, tenths % 10);
	else
		fprintf(out, ", %s", format_number((tenths + 5) / 10, number));
	fprintf(out, " per %s", units[unit].word);
}

static void print_kept(FILE *out, const struct report_process *process,
		       const struct report_suballocations *entry)
{
	char kept[NUMBER_MAX], all[NUMBER_MAX];
	bool runs = process->ended == REPORT_RUNNING;

	fprintf(out, "%s of %s kept", format_number(entry->kept_blocks, kept),
		format_number(entry->allocated_blocks, all));
	if (!(entry->kept_per_second > 0 && entry->kept_per_second < RATE_MAX)) {
		fputs(runs ? " so far" : "", out);
		return;
	}
	print_rate(out, entry->kept_per_second);
	fputs(runs ? " so far" : " until the loop ended", out);
}

void describe_trend(FILE *out, const struct report_process *process,
		    const struct report_suballocations *entry)
{
	switch (entry->trend) {
	case TREND_CONSTANT:
		fputs("constant", out);
		break;
	case TREND_FILLED:
		fputs("filled up and stays", out);
		break;
	case TREND_ACCUMULATING:
		print_kept(out, process, entry);
		break;
	default:
		break;
	}
}

void describe_division(FILE *out, const struct report_leak *blocks, const char *before)
{
	if (!blocks->used_bytes)
		return;
	fputs(before, out);
	describe_bytes(out, blocks->used_bytes);
	fprintf(out, " in %ss, ", suballocation_word(blocks->cache));
	describe_bytes(out, blocks->bytes - blocks->used_bytes);
	fputs(" " SUBALLOCATIONS_UNUSED, out);
}

void describe_pool(FILE *out, const struct report_leak *live, int device)
{
	if (live->cache) {
		print_escaped(out, live->cache);
	} else {
		describe_kind(out, live->kind);
		fputs(", ", out);
		print_escaped(out, live->api);
	}
	if (device >= 0)
		fprintf(out, ", device %d", device);
}

/* Prints "1 tensor lies", "2 tensors lie". */
static void print_lying(FILE *out, const char *cache, uint64_t blocks)
{
	describe_count(out, blocks, suballocation_word(cache));
	fputs(blocks == 1 ? " lies" : " lie", out);
}

void describe_outside(FILE *out, const char *before, const struct report_process *process)
{
	struct report_places sum = { 0 };
	const char *cache = NULL;

	for (size_t i = 0; i < process->suballocation_count; i++) {
		const struct report_suballocations *entry = &process->suballocations[i];
		const struct report_places *places = &entry->places;

		if (places->outside_blocks || places->partly_blocks)
			cache = entry->live.cache;
		sum.outside_blocks = add_bounded(sum.outside_blocks, places->outside_blocks);
		sum.partly_blocks = add_bounded(sum.partly_blocks, places->partly_blocks);
		sum.outside_bytes = add_bounded(sum.outside_bytes, places->outside_bytes);
	}
	if (!sum.outside_blocks && !sum.partly_blocks)
		return;
	fputs(before, out);
	if (sum.outside_blocks) {
		print_lying(out, cache, sum.outside_blocks);
		fputs(" in no driver block that gpuleak recorded", out);
	}
	if (sum.partly_blocks) {
		fputs(sum.outside_blocks ? ", and " : "", out);
		print_lying(out, cache, sum.partly_blocks);
		fputs(" only partly in a driver block that gpuleak recorded", out);
	}
	fputs(": ", out);
	describe_bytes(out, sum.outside_bytes);
	fputs(" of them are in memory whose allocation gpuleak did not record\n", out);
}
