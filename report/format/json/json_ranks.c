/* SPDX-License-Identifier: MIT
 *
 * {"count": 8, "leaking": 1, "odd": [sentences], "shared": [leaks with a part per rank]}
 */
#include "report/format/json/json_ranks.h"

#include "report/symbols/fingerprint.h"
#include "report/format/json/json_helpers.h"
#include "report/analyze/ranks.h"
#include "report/analyze/leak_totals.h"

static json_t *parts_json(const struct ranks *ranks, const struct rank_leak *leak)
{
	json_t *ret = json_array();

	for (size_t i = 0; i < leak->count && ret; i++) {
		json_t *item = json_object();

		json_set(&item, "rank", json_integer(ranks->numbers[leak->parts[i].rank]));
		json_set(&item, "bytes", json_number(leak->parts[i].bytes));
		json_set(&item, "blocks", json_number(leak->parts[i].blocks));
		json_append(&ret, item);
	}
	return ret;
}

static json_t *shared_json(const struct ranks *ranks, const struct rank_leak *shared)
{
	const struct report_leak *leak = shared->leak;
	char fingerprint[FINGERPRINT_TEXT];
	json_t *ret = json_object();

	report_fingerprint_text(report_leak_fingerprint(leak), fingerprint);
	json_set(&ret, "api", json_text(leak->api));
	json_set(&ret, "kind", json_text(leak->kind));
	json_set(&ret, "fingerprint", json_string(fingerprint));
	json_set(&ret, "bytes", json_number(shared->bytes));
	json_set(&ret, "blocks", json_number(shared->blocks));
	json_set(&ret, "in", parts_json(ranks, shared));
	json_set(&ret, "stack", json_stack(leak->stack));
	return ret;
}

static json_t *job_json(const struct ranks *ranks)
{
	json_t *ret = json_object(), *odd = json_array(), *shared = json_array();

	for (size_t i = 0; i < ranks->odd_count && odd; i++)
		json_append(&odd, json_text(ranks->odd[i]));
	for (size_t i = 0; i < ranks->leak_count && shared; i++)
		if (ranks->leaks[i].count > 1)
			json_append(&shared, shared_json(ranks, &ranks->leaks[i]));
	json_set(&ret, "count", json_number(ranks->count));
	json_set(&ret, "leaking", json_number(ranks->leaking));
	json_set(&ret, "odd", odd);
	json_set(&ret, "shared", shared);
	return ret;
}

void json_ranks(json_t **object, const struct report *report)
{
	struct ranks ranks;

	if (ranks_find(report, &ranks) < 0) {
		json_set(object, "ranks", NULL); /* memory ran out */
		return;
	}
	if (ranks.count > 1)
		json_set(object, "ranks", job_json(&ranks));
	ranks_finish(&ranks);
}
