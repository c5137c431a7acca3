/* SPDX-License-Identifier: MIT
 *
 * Writes the sections of a process that have no file of their own. docs/guides/pool.md documents
 * the keys of the pools.
 */
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>

#include "report/describe/describe_suballocations.h"
#include "ledger/no_gpu.h"
#include "report/format/json/json_helpers.h"
#include "report/format/json/json_sections.h"
#include "report/model/growth_rule.h"
#include "report/model/model.h"
#include "report/model/model_named_steps.h"
#include "report/model/model_pool.h"
#include "report/model/model_suballocations.h"
#include "report/util/number.h"

static json_t *identity_json(const struct report_process *process)
{
	bool ranked = process->ranked;

	return JSON_OBJECT(
		{ "pid", json_integer(process->pid) },
		{ "command", JSON_LIST(process->command, process->command_count, json_text_at) },
		{ "ended", json_string(report_ended_word(process->ended)) },
		{ "status", json_integer(process->status) },
		{ "host", json_text(process->host) },
		{ "exe", json_text(process->exe) },
		{ "rank", JSON_IF(ranked, json_integer(process->rank)) },
		{ "ranks", JSON_IF(ranked, process->ranks ? json_integer(process->ranks)
							  : json_null()) },
		{ "rank_variable", JSON_IF(ranked, json_text(process->rank_variable)) });
}

/* Scripts compare these words, so they must not change. */
static json_t *no_gpu_json(uint32_t flags)
{
	const char *launches = flags & LEDGER_NO_GPU_LAUNCH_REFUSED ? "refused" :
			       flags & LEDGER_NO_GPU_LAUNCH_SKIPPED ? "skipped" : "none";

	return JSON_OBJECT(
		{ "launches", json_string(launches) },
		{ "results_invalid", json_boolean(flags & LEDGER_NO_GPU_FAKE_KERNELS) },
		{ "real_runtime", json_boolean(flags & LEDGER_NO_GPU_REAL_RUNTIME) });
}

json_t *json_summary(const struct report_summary *sum)
{
	bool left_out = sum->left_out_blocks, younger = sum->younger_blocks;
	bool accumulating = sum->accumulating_blocks, unseen = sum->unseen_blocks;

	return JSON_OBJECT(
		{ "leaked_bytes", json_number(sum->leaked_bytes) },
		{ "leaked_blocks", json_number(sum->leaked_blocks) },
		{ "suppressed_bytes", json_number(sum->suppressed_bytes) },
		{ "suppressed_blocks", json_number(sum->suppressed_blocks) },
		{ "cached_bytes", json_number(sum->cached_bytes) },
		{ "cached_blocks", json_number(sum->cached_blocks) },
		{ "errors", json_number(sum->errors) },
		{ "allocated_bytes", json_number(sum->allocated_bytes) },
		{ "allocated_blocks", json_number(sum->allocated_blocks) },
		{ "freed_blocks", json_number(sum->freed_blocks) },
		{ "peak_bytes", json_number(sum->peak_bytes) },
		{ "with_context_blocks", json_number(sum->with_context_blocks) },
		{ "with_context_bytes", json_number(sum->with_context_bytes) },
		{ "late_blocks", json_number(sum->late_blocks) },
		{ "unseen_blocks", JSON_IF(unseen, json_number(sum->unseen_blocks)) },
		{ "left_out_bytes", JSON_IF(left_out, json_number(sum->left_out_bytes)) },
		{ "left_out_blocks", JSON_IF(left_out, json_number(sum->left_out_blocks)) },
		{ "younger_blocks", JSON_IF(younger, json_number(sum->younger_blocks)) },
		{ "younger_bytes", JSON_IF(younger, json_number(sum->younger_bytes)) },
		{ "accumulating_bytes", JSON_IF(accumulating,
						json_number(sum->accumulating_bytes)) },
		{ "accumulating_blocks", JSON_IF(accumulating,
						 json_number(sum->accumulating_blocks)) });
}

json_t *json_sample(const void *item)
{
	const struct report_sample *sample = item;
	json_t *ret = json_array();

	json_append(&ret, json_number(sample->time_ns));
	json_append(&ret, json_number(sample->bytes));
	return ret;
}

static json_t *series_json(const void *item)
{
	const struct report_series *series = item;

	return JSON_OBJECT(
		{ "kind", json_text(series->kind) },
		{ "device", json_integer(series->device) },
		{ "live", JSON_LIST(series->samples, series->count, json_sample) });
}

json_t *json_timeline(const struct report_process *process)
{
	const struct report_timeline *timeline = &process->timeline;
	const struct report_series *total = &timeline->total;

	return JSON_OBJECT(
		{ "start_real_ns", json_number(process->start_real_ns) },
		{ "end_ns", json_number(timeline->end_ns) },
		{ "peak_ns", json_number(timeline->peak_ns) },
		{ "live", JSON_LIST(total->samples, total->count, json_sample) },
		{ "parts", JSON_LIST(timeline->parts, timeline->part_count, series_json) });
}

static json_t *late_json(const void *item)
{
	const struct report_late *late = item;

	return JSON_OBJECT(
		{ "count", json_number(late->blocks) },
		{ "kind", json_text(late->kind) },
		{ "device", json_integer(late->device) },
		{ "allocated", JSON_OBJECT(
			{ "api", json_text(late->api) },
			{ "stack", json_stack(late->stack) }) });
}

static json_t *step_json(const void *item)
{
	const struct report_step *step = item;

	return JSON_OBJECT(
		{ "number", json_integer(step->number) },
		{ "label", json_text(step->label) },
		{ "time_ns", json_number(step->time_ns) },
		{ "live_bytes", json_number(step->live_bytes) },
		{ "live_blocks", json_number(step->live_blocks) });
}

static json_t *number_json(const void *number)
{
	return json_number(*(const uint64_t *)number);
}

static json_t *suspect_json(const void *item)
{
	const struct report_suspect *suspect = item;

	return JSON_OBJECT(
		{ "api", json_text(suspect->api) },
		{ "kind", json_text(suspect->kind) },
		{ "device", json_integer(suspect->device) },
		{ "bytes", json_number(suspect->bytes) },
		{ "blocks", json_number(suspect->blocks) },
		{ "bytes_per_step", json_number(suspect->bytes_per_step) },
		{ "blocks_per_step", json_number(suspect->blocks_per_step) },
		{ "bytes_per_hour", json_number(suspect->bytes_per_hour) },
		{ "grew_in_steps", json_integer(suspect->intervals) },
		{ "bytes_at_steps", JSON_LIST(suspect->series.values, suspect->series.count,
					      number_json) },
		{ "stack", json_stack(suspect->stack) });
}

static json_t *growth_json(const struct report_growth *growth)
{
	return JSON_OBJECT(
		{ "step_count", json_number(growth->step_count) },
		{ "suspects", JSON_LIST(growth->suspects, growth->suspect_count, suspect_json) },
		{ "suppressed", json_number(growth->suppressed) },
		{ "not_judged", json_number(growth->lost) },
		{ "steps", JSON_LIST(growth->steps, growth->stored_count, step_json) });
}

static json_t *named_step_json(const void *item)
{
	const struct report_named_step *step = item;
	const struct ledger_totals *totals = &step->totals;

	return JSON_OBJECT(
		{ "name", json_text(step->name) },
		{ "count", json_number(step->count) },
		{ "open", json_boolean(step->open) },
		{ "allocated_bytes", json_number(totals->allocated_bytes) },
		{ "allocated_blocks", json_number(totals->allocated_blocks) },
		{ "freed_bytes", json_number(totals->freed_bytes) },
		{ "freed_blocks", json_number(totals->freed_blocks) },
		{ "left_bytes", json_integer(named_step_left_bytes(step)) },
		{ "left_blocks", json_integer(named_step_left_blocks(step)) },
		{ "peak_bytes", json_number(step->peak_bytes) });
}

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

static json_t *pool_json(const void *item)
{
	const struct report_pool *pool = item;
	const struct ledger_pool *count = &pool->count;

	return JSON_OBJECT(
		{ "api", json_text(pool->api) },
		{ "kind", json_text(pool->kind) },
		{ "device", json_integer(pool->device) },
		{ "mode", json_string(pool->mode) },
		{ "backend", json_string(pool->backend) },
		{ "turned_off", json_text(pool->off) },
		{ "used_bytes", json_number(report_pool_used(count)) },
		{ "cached_bytes", json_number(count->cached) },
		{ "pending_bytes", json_number(count->pending) },
		{ "reserved_bytes", json_number(count->reserved) },
		{ "peak_used_bytes", json_number(count->peak_used) },
		{ "peak_reserved_bytes", json_number(count->peak_reserved) },
		{ "hits", json_number(count->hits) },
		{ "native_allocations", json_number(count->native_allocs) },
		{ "native_frees", json_number(count->native_frees) },
		{ "frees", json_number(count->frees) },
		{ "native_calls_saved", json_number(report_pool_calls_saved(count)) },
		{ "tickets", json_number(count->tickets) },
		{ "shared_tickets", json_number(count->shared_tickets) },
		{ "waits", json_number(count->waits) },
		{ "wait_ns", json_number(count->wait_ns) },
		{ "trims", json_number(count->trims) },
		{ "trimmed_blocks", json_number(count->trimmed) },
		{ "trimmed_bytes", json_number(count->trimmed_bytes) },
		{ "rescued", json_number(count->rescued) },
		{ "waste_bytes", json_number(count->waste) },
		{ "not_pooled", reasons_json(count) });
}

static json_t *refusal_json(const struct report_refusal *refusal)
{
	if (!refusal->api)
		return json_null();
	return JSON_OBJECT(
		{ "api", json_text(refusal->api) },
		{ "stack", json_stack(refusal->stack) });
}

static json_t *pools_json(const struct report_pools *pools)
{
	return JSON_OBJECT(
		{ "mode", json_string(pools->mode) },
		{ "backend", json_string(pools->backend) },
		{ "limit_bytes", json_number(pools->limit) },
		{ "refused", json_number(pools->refused) },
		{ "first_refused", refusal_json(&pools->first_refused) },
		{ "injected_failures", json_number(pools->injected) },
		{ "first_injected", refusal_json(&pools->first_injected) },
		{ "pools", JSON_LIST(pools->pools, pools->count, pool_json) });
}

/* Returns null for a rate that is impossible, for example infinite, because JSON has no
 * infinity. */
static json_t *rate_json(double rate)
{
	return rate >= 0 && rate < 1e15 ? json_real(rate) : json_null();
}

static json_t *suballocations_json(const void *item)
{
	const struct report_suballocations *entry = item;
	const struct report_leak *live = &entry->live;
	const struct report_places *places = &entry->places;
	uint64_t outside_blocks = add_bounded(places->outside_blocks, places->partly_blocks);
	bool is_outside = outside_blocks, ignored = entry->ignored_blocks;

	return JSON_OBJECT(
		{ "api", json_text(live->api) },
		{ "kind", json_text(live->kind) },
		{ "fingerprint", json_fingerprint(live) },
		{ "device", json_integer(live->device) },
		{ "bytes", json_number(live->bytes) },
		{ "blocks", json_number(live->blocks) },
		{ "cache", json_text(live->cache) },
		{ "allocated_blocks", json_number(entry->allocated_blocks) },
		{ "freed_blocks", json_number(entry->freed_blocks) },
		{ "trend", json_text(suballocation_trend_word(entry)) },
		{ "kept_bytes", json_number(entry->kept_bytes) },
		{ "kept_blocks", json_number(entry->kept_blocks) },
		{ "kept_per_second", rate_json(entry->kept_per_second) },
		{ "peak_blocks", json_number(entry->peak_blocks) },
		{ "pattern", JSON_IF(live->pattern, json_text(live->pattern)) },
		{ "outside_blocks", JSON_IF(is_outside, json_number(outside_blocks)) },
		{ "outside_bytes", JSON_IF(is_outside, json_number(places->outside_bytes)) },
		{ "doubled_bytes", JSON_IF(places->doubled_bytes,
					   json_number(places->doubled_bytes)) },
		{ "ignored_blocks", JSON_IF(ignored, json_number(entry->ignored_blocks)) },
		{ "ignored_bytes", JSON_IF(ignored, json_number(entry->ignored_bytes)) },
		{ "keepers", JSON_IF(live->keepers, json_keepers(live->keepers)) },
		{ "keepers_seconds", JSON_IF(live->keepers, json_keepers_time(live->keepers)) },
		{ "ledger_site", JSON_IF(live->addresses, json_number(live->addresses->site)) },
		{ "addresses", JSON_IF(live->addresses, json_addresses(live->addresses)) },
		{ "stack", json_stack(live->stack) });
}

void json_add_process(json_t **object, const struct report_process *process)
{
	bool timed = process->timeline.total.count, has_objects = process->object_kind_count;

	JSON_ADD(object,
		 { "process", identity_json(process) },
		 { "no_gpu", JSON_IF(process->no_gpu, no_gpu_json(process->no_gpu)) },
		 { "summary", json_summary(&process->summary) },
		 { "leaks", JSON_LIST(process->leaks, process->leak_count, json_leak) },
		 { "errors", JSON_LIST(process->errors, process->error_count, json_error) },
		 { "suppressed", JSON_LIST(process->suppressed, process->suppressed_count,
					   json_leak) },
		 { "cached", JSON_LIST(process->cached, process->cached_count, json_leak) },
		 { "objects", JSON_LIST(process->objects, process->object_count,
					json_not_memory) },
		 { "object_kinds", JSON_IF(has_objects, JSON_LIST(process->object_kinds,
								  process->object_kind_count,
								  json_object_kind)) },
		 { "suballocations", JSON_IF(process->has_suballocations ||
							     process->has_counted_blocks,
					     JSON_LIST(process->suballocations,
						       process->suballocation_count,
						       suballocations_json)) },
		 { "peak", json_peak(process) },
		 { "out_of_memory", json_out_of_memory(process) },
		 { "out_of_memory_count", JSON_IF(process->refused > process->out_of_memory_count,
						  json_number(process->refused)) },
		 { "ipc", json_ipc(process) },
		 { "released", json_deferred(&process->deferred) },
		 { "after_shutdown", JSON_IF(process->late_count,
					     JSON_LIST(process->late, process->late_count,
						       late_json)) },
		 { "timeline", JSON_IF(timed, json_timeline(process)) },
		 { "devices", json_driver_memory(process) },
		 { "driver_costs", json_driver_costs(process) },
		 { "steps", JSON_IF(process->named_step_count,
				    JSON_LIST(process->named_steps, process->named_step_count,
					      named_step_json)) },
		 { "growth", JSON_IF(process->growth, growth_json(process->growth)) },
		 { "pool", JSON_IF(process->pools, pools_json(process->pools)) },
		 { "coverage", json_coverage(&process->coverage) },
		 { "notes", JSON_LIST(process->notes, process->note_count, json_text_at) });
}
