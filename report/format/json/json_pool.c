/* SPDX-License-Identifier: MIT
 *
 * All counters of the pools. docs/guides/pool.md documents the keys.
 */
#include "report/format/json/json_pool.h"

#include <ctype.h>
#include <stdio.h>

#include "report/format/json/json_helpers.h"
#include "report/model/model_pool.h"

/* Returns { "exported": 3 } with the reasons whose count is not 0. */
static json_t *reasons_json(const struct ledger_pool *count)
{
	json_t *ret = json_object();
	char key[64];

	for (unsigned int i = 0; i < LEDGER_POOL_REASON_COUNT; i++) {
		if (!count->reasons[i])
			continue;
		snprintf(key, sizeof(key), "%s", report_pool_reason_word(i));
		for (char *at = key; *at; at++)
			*at = (char)tolower((unsigned char)*at);
		json_set(&ret, key, json_number(count->reasons[i]));
	}
	return ret;
}

static json_t *pool_json(const struct report_pool *pool)
{
	const struct ledger_pool *count = &pool->count;
	json_t *ret = json_object();

	json_set(&ret, "api", json_text(pool->api));
	json_set(&ret, "kind", json_text(pool->kind));
	json_set(&ret, "device", json_integer(pool->device));
	json_set(&ret, "mode", json_string(pool->mode));
	json_set(&ret, "backend", json_string(pool->backend));
	json_set(&ret, "turned_off", json_text(pool->off));
	json_set(&ret, "used_bytes", json_number(report_pool_used(count)));
	json_set(&ret, "cached_bytes", json_number(count->cached));
	json_set(&ret, "pending_bytes", json_number(count->pending));
	json_set(&ret, "reserved_bytes", json_number(count->reserved));
	json_set(&ret, "peak_used_bytes", json_number(count->peak_used));
	json_set(&ret, "peak_reserved_bytes", json_number(count->peak_reserved));
	json_set(&ret, "hits", json_number(count->hits));
	json_set(&ret, "native_allocations", json_number(count->native_allocs));
	json_set(&ret, "native_frees", json_number(count->native_frees));
	json_set(&ret, "frees", json_number(count->frees));
	json_set(&ret, "native_calls_saved", json_number(report_pool_calls_saved(count)));
	json_set(&ret, "tickets", json_number(count->tickets));
	json_set(&ret, "shared_tickets", json_number(count->shared_tickets));
	json_set(&ret, "waits", json_number(count->waits));
	json_set(&ret, "wait_ns", json_number(count->wait_ns));
	json_set(&ret, "trims", json_number(count->trims));
	json_set(&ret, "trimmed_blocks", json_number(count->trimmed));
	json_set(&ret, "trimmed_bytes", json_number(count->trimmed_bytes));
	json_set(&ret, "rescued", json_number(count->rescued));
	json_set(&ret, "waste_bytes", json_number(count->waste));
	json_set(&ret, "not_pooled", reasons_json(count));
	return ret;
}

static json_t *refusal_json(const struct report_refusal *refusal)
{
	json_t *ret = json_object();

	if (!refusal->api) {
		json_decref(ret);
		return json_null();
	}
	json_set(&ret, "api", json_text(refusal->api));
	json_set(&ret, "stack", json_stack(refusal->stack));
	return ret;
}

json_t *json_pool(const struct report_pools *pools)
{
	json_t *ret = json_object(), *list = json_array();

	for (size_t i = 0; i < pools->count && list; i++)
		json_append(&list, pool_json(&pools->pools[i]));
	json_set(&ret, "mode", json_string(pools->mode));
	json_set(&ret, "backend", json_string(pools->backend));
	json_set(&ret, "limit_bytes", json_number(pools->limit));
	json_set(&ret, "refused", json_number(pools->refused));
	json_set(&ret, "first_refused", refusal_json(&pools->first_refused));
	json_set(&ret, "injected_failures", json_number(pools->injected));
	json_set(&ret, "first_injected", refusal_json(&pools->first_injected));
	json_set(&ret, "pools", list);
	return ret;
}
