/* SPDX-License-Identifier: MIT
 *
 * The key "ranks": {"count": 8, "leaking": 1, "odd": [sentences], "shared": [leaks with a part
 * per rank]}
 */
#include "report/analyze/ranks.h"
#include "report/format/json/json_helpers.h"
#include "report/format/json/json_sections.h"

static json_t *parts_json(const struct ranks *ranks, const struct rank_leak *leak)
{
	json_t *ret = json_array();

	for (size_t i = 0; i < leak->count && ret; i++)
		json_append(&ret, JSON_OBJECT(
			{ "rank", json_integer(ranks->numbers[leak->parts[i].rank]) },
			{ "bytes", json_number(leak->parts[i].bytes) },
			{ "blocks", json_number(leak->parts[i].blocks) }));
	return ret;
}

static json_t *shared_json(const struct ranks *ranks, const struct rank_leak *shared)
{
	const struct report_leak *leak = shared->leak;

	return JSON_OBJECT(
		{ "api", json_text(leak->api) },
		{ "kind", json_text(leak->kind) },
		{ "fingerprint", json_fingerprint(leak) },
		{ "bytes", json_number(shared->bytes) },
		{ "blocks", json_number(shared->blocks) },
		{ "in", parts_json(ranks, shared) },
		{ "stack", json_stack(leak->stack) });
}

/* Returns the list of those of the COUNT elements of LIST that more than one rank has. */
static json_t *all_shared_json(const struct ranks *ranks, const struct rank_leak *list,
			       size_t count)
{
	json_t *shared = json_array();

	for (size_t i = 0; i < count && shared; i++)
		if (list[i].count > 1)
			json_append(&shared, shared_json(ranks, &list[i]));
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
	struct ranks ranks;
	json_t *ret;

	if (ranks_find(report, &ranks) < 0)
		return NULL;
	ret = JSON_IF(ranks.count > 1, job_json(&ranks));
	ranks_finish(&ranks);
	return ret;
}
