/* SPDX-License-Identifier: MIT
 *
 * Writes the allocations that ran out of memory, with those who held the memory. What is not known
 * is null.
 */
#include "report/describe/describe_holders.h"
#include "report/describe/describe_out_of_memory.h"
#include "report/format/json/json_helpers.h"
#include "report/format/json/json_sections.h"
#include "report/model/model.h"
#include "report/model/model_driver_memory.h"
#include "report/model/model_holders.h"

static json_t *known(bool is_known, uint64_t value)
{
	return is_known ? json_number(value) : json_null();
}

json_t *json_holder(const void *item)
{
	const struct report_leak *holder = item;

	return JSON_OBJECT(
		{ "api", json_text(holder->api) },
		{ "kind", json_text(holder->kind) },
		{ "device", json_integer(holder->device) },
		{ "bytes", json_number(holder->bytes) },
		{ "blocks", json_number(holder->blocks) },
		{ "cache", json_text(holder->cache) },
		{ "stack", json_stack(holder->stack) });
}

static json_t *held_json(const void *item)
{
	const struct held *held = item;

	return JSON_OBJECT(
		{ "name", json_text(held->name) },
		{ "bytes", json_number(held->bytes) },
		{ "blocks", json_number(held->blocks) });
}

static json_t *sums_json(const struct report_holders *holders, enum held_by by)
{
	struct held_list held;
	json_t *ret = NULL;

	if (held_sum_up(holders, by, &held) == 0)
		ret = JSON_LIST(held.list, held.count, held_json);
	held_finish(&held);
	return ret;
}

static json_t *others_json(const struct report_holders *holders)
{
	return JSON_OBJECT(
		{ "sites", json_number(holders->other_sites) },
		{ "bytes", json_number(holders->other_bytes) },
		{ "blocks", json_number(holders->other_blocks) });
}

void json_add_holders(json_t **object, const struct report_holders *holders)
{
	JSON_ADD(object,
		 { "holders", JSON_LIST(holders->list, holders->count, json_holder) },
		 { "other_holders", JSON_IF(holders->other_sites, others_json(holders)) },
		 { "places", sums_json(holders, HELD_BY_PLACE) },
		 { "caches", sums_json(holders, HELD_BY_CACHE) },
		 { "libraries", sums_json(holders, HELD_BY_LIBRARY) });
}

static json_t *framework_json(const struct report_out_of_memory *entry)
{
	return JSON_OBJECT(
		{ "name", json_text(entry->framework) },
		{ "requested_bytes", json_number(entry->framework_bytes) },
		{ "allocated_bytes", json_number(entry->framework_allocated) },
		{ "reserved_bytes", json_number(entry->framework_reserved) });
}

static json_t *entry_json(const struct report_process *process,
			  const struct report_out_of_memory *entry)
{
	const struct driver_memory_sample *sample = report_sample_near(process, entry);
	bool injected = entry->refuser == LEDGER_REFUSER_LIMIT ||
			entry->refuser == LEDGER_REFUSER_FAIL_AT;
	bool has_others = sample && sample->device_used;

	json_t *ret = JSON_OBJECT(
		{ "api", json_text(entry->api) },
		{ "requested_bytes", known(entry->bytes, entry->bytes) },
		{ "device", json_integer(entry->device) },
		{ "seconds", json_real((double)entry->time_ns / 1e9) },
		{ "outcome", json_string(report_outcome_word(report_outcome(process, entry))) },
		{ "injected", json_boolean(injected) },
		{ "refused_by", json_text(out_of_memory_refuser(entry)) },
		{ "times", json_number(entry->times) },
		{ "limit_bytes", JSON_IF(entry->limit_bytes, json_number(entry->limit_bytes)) },
		{ "tracked_bytes", known(entry->has_holders, entry->tracked_bytes) },
		{ "driver_bytes", known(sample, sample ? driver_part(sample) : 0) },
		{ "other_processes_bytes",
		  known(has_others, has_others ? others_part(sample) : 0) },
		{ "free_bytes", known(entry->has_free, entry->free_bytes) },
		{ "total_bytes", known(entry->has_free, entry->total_bytes) },
		{ "framework", JSON_IF(entry->gave_up, framework_json(entry)) },
		{ "stack", json_stack(entry->stack) });

	json_add_holders(&ret, &entry->held);
	return ret;
}

json_t *json_out_of_memory(const struct report_process *process)
{
	json_t *ret = json_array();

	for (size_t i = 0; i < process->out_of_memory_count; i++)
		json_append(&ret, entry_json(process, &process->out_of_memory[i]));
	return ret;
}
