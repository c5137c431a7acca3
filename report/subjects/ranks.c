/* SPDX-License-Identifier: MIT
 *
 * A parallel job: the ranks that differ, in the sentences of rank_outliers.c, and the leaks that
 * ranks share.
 */
#include "report/subjects/common.h"

#include "report/analyze/ranks.h"

#define FIRST_MAX 1
#define SHARED_MAX 1000 /* same limit as for the leaks of a process */

void describe_odd_ranks(FILE *out, const struct ranks *ranks)
{
	for (size_t i = 0; i < ranks->odd_count && i < FIRST_MAX; i++)
		eprintf(out, "%s; ", ranks->odd[i]);
}

void describe_more_odd_ranks(FILE *out, const struct ranks *ranks)
{
	for (size_t i = FIRST_MAX; i < ranks->odd_count; i++)
		eprintf(out, "odd: %s\n", ranks->odd[i]);
}

/* Prints ", 4.0 MiB each", or which rank has the largest part. */
static void print_spread(FILE *out, const struct ranks *ranks, const struct rank_leak *leak)
{
	const struct rank_part *most = &leak->parts[0];
	bool even = true;

	for (size_t i = 1; i < leak->count; i++) {
		even &= leak->parts[i].bytes == most->bytes;
		if (leak->parts[i].bytes > most->bytes)
			most = &leak->parts[i];
	}
	if (even)
		fprintf(out, ", %s each", SIZE(most->bytes));
	else
		fprintf(out, ", most in rank %d: %s", ranks->numbers[most->rank],
			SIZE(most->bytes));
}

static void print_shared(FILE *out, const struct ranks *ranks, const struct rank_leak *leak,
			 bool whole)
{
	fprintf(out, "\nLeak of %s in %s in %zu of %zu ranks", EXACT_SIZE(leak->bytes),
		COUNT(leak->blocks, "block"), leak->count, ranks->count);
	print_spread(out, ranks, leak);
	describe_source(out, leak->leak->site->kind, leak->leak->site->api,
			leak->same_device ? leak->leak->site->device : -1);
	fputs(", allocated at:\n", out);
	describe_stack(out, leak->leak->site->stack, whole);
}

static void print_accumulating(FILE *out, const struct ranks *ranks, const struct rank_leak *site,
			       bool whole)
{
	const struct report_leak *live = site->leak;

	fputs("\nAccumulating: ", out);
	describe_suballocations(out, live->cache, site->bytes, site->blocks);
	fprintf(out, " in %zu of %zu ranks", site->count, ranks->count);
	print_spread(out, ranks, site);
	fputs(" (", out);
	describe_pool(out, live, site->same_device ? live->site->device : -1);
	fputs("), allocated at:\n", out);
	describe_stack(out, live->site->stack, whole);
}

void describe_shared_leaks(FILE *out, const struct ranks *ranks, bool whole)
{
	size_t shown = 0;

	for (size_t i = 0; i < ranks->leak_count && shown < SHARED_MAX; i++) {
		if (ranks->leaks[i].count < 2)
			continue;
		print_shared(out, ranks, &ranks->leaks[i], whole);
		shown++;
	}
	shown = 0;
	for (size_t i = 0; i < ranks->accumulating_count && shown < SHARED_MAX; i++) {
		if (ranks->accumulating[i].count < 2)
			continue;
		print_accumulating(out, ranks, &ranks->accumulating[i], whole);
		shown++;
	}
}

static json_t *parts_json(const struct ranks *ranks, const struct rank_leak *leak)
{
	json_t *ret = json_array();

	for (size_t i = 0; i < leak->count; i++)
		json_array_append_new(ret, JSON_OBJECT(
			{ "rank", json_integer(ranks->numbers[leak->parts[i].rank]) },
			{ "bytes", json_number(leak->parts[i].bytes) },
			{ "blocks", json_number(leak->parts[i].blocks) }));
	return ret;
}

static json_t *shared_json(const struct ranks *ranks, const struct rank_leak *shared)
{
	const struct report_leak *leak = shared->leak;

	return JSON_OBJECT(
		{ "api", json_text(leak->site->api) },
		{ "kind", json_text(leak->site->kind) },
		{ "fingerprint", json_fingerprint(leak) },
		{ "bytes", json_number(shared->bytes) },
		{ "blocks", json_number(shared->blocks) },
		{ "in", parts_json(ranks, shared) },
		{ "stack", json_stack(leak->site->stack) });
}

/* Returns the list of those of the COUNT elements of LIST that more than one rank has. */
static json_t *all_shared_json(const struct ranks *ranks, const struct rank_leak *list,
			       size_t count)
{
	json_t *shared = json_array();

	for (size_t i = 0; i < count; i++)
		if (list[i].count > 1)
			json_array_append_new(shared, shared_json(ranks, &list[i]));
	return shared;
}

static json_t *job_json(const struct ranks *ranks)
{
	return JSON_OBJECT(
		{ "count", json_number(ranks->count) },
		{ "leaking", json_number(ranks->leaking) },
		{ "odd", JSON_LIST(ranks->odd, ranks->odd_count, json_text_at) },
		{ "shared", all_shared_json(ranks, ranks->leaks, ranks->leak_count) },
		{ "shared_accumulating", all_shared_json(ranks, ranks->accumulating,
							 ranks->accumulating_count) });
}

json_t *json_ranks(const struct report *report)
{
	AT_END(ranks_finish) struct ranks ranks = ranks_find(report);

	return JSON_IF(ranks.count > 1, job_json(&ranks));
}
