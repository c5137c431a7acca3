/* SPDX-License-Identifier: MIT
 *
 * Reads the records of refused allocations. Call sites of one place are added up, because each
 * thread has its own. Reads only what a damaged ledger may have, too: counts beyond the record, and
 * refs that lead nowhere.
 */
#include "report/model/model_holders.h"

#include <stdlib.h>
#include <string.h>

#include "report/model/builder.h"
#include "report/model/model_driver_memory.h"
#include "report/util/number.h"

#define RECORDS_MAX (LEDGER_REFUSALS_FIRST + LEDGER_REFUSALS_LAST)
/* If a sample of driver memory differs by at most this time, it is near: the sampler pauses for up
 * to half a second. */
#define NEAR_NS 2000000000u

/* ---- holders ---- */

/* Returns the framework that reports by the call API that it ran out of memory, or NULL. */
static const char *framework_of(const char *api)
{
	return api && strncmp(api, "c10::", 5) == 0 ? "PyTorch" : NULL;
}

struct report_leak build_holder(struct builder *b, const struct ledger_site *site, uint64_t bytes,
				uint64_t blocks)
{
	struct report_leak ret = { &intern_site(b, site)->site, .bytes = bytes, .blocks = blocks };

	b->bad_refs += !site;
	ret.cache = ret.site->stack->cache;
	if (!ret.cache && framework_of(ret.site->api))
		ret.cache = "PyTorch caching allocator";
	return ret;
}

/* Sites are interned. */
static int compare_sites(const void *left, const void *right)
{
	const struct report_leak *a = left, *b = right;

	return compare_numbers((uintptr_t)a->site, (uintptr_t)b->site);
}

void report_merge_holders(struct report_holders *held)
{
	size_t kept = 0;

	if (!held->count)
		return;
	SORT(held->list, held->count, compare_sites);
	for (size_t i = 1; i < held->count; i++) {
		struct report_leak *to = &held->list[kept];
		const struct report_leak *from = &held->list[i];

		if (to->site != from->site) {
			held->list[++kept] = *from;
			continue;
		}
		to->bytes = add_bounded(to->bytes, from->bytes);
		to->blocks = add_bounded(to->blocks, from->blocks);
	}
	held->count = kept + 1;
	SORT(held->list, held->count, build_compare_leaks);
}

bool report_is_suballocation(const struct report_leak *leak)
{
	return strcmp(leak->site->kind, LEDGER_KIND_SUBALLOCATION) == 0;
}

bool report_holder_is_unused(const struct report_holders *held, const struct report_leak *holder)
{
	if (!held->divided || !holder->cache || report_is_suballocation(holder))
		return false;
	for (size_t i = 0; i < held->count; i++)
		if (held->list[i].cache && report_is_suballocation(&held->list[i]) &&
		    strcmp(held->list[i].cache, holder->cache) == 0)
			return true;
	return false;
}

static void read_holders(struct builder *b, const struct ledger_out_of_memory *record,
			 struct report_out_of_memory *entry)
{
	size_t count = record->holders < LEDGER_HOLDERS_MAX ? record->holders : LEDGER_HOLDERS_MAX;
	struct report_holders *held = &entry->held;

	entry->has_holders = true;
	held->divided = (record->state & LEDGER_REFUSAL_DIVIDED) != 0;
	held->other_sites = record->other_sites;
	held->other_bytes = record->other_bytes;
	held->other_blocks = record->other_blocks;
	held->list = arena_alloc(b->arena, (count + 1) * sizeof(*held->list));
	for (size_t i = 0; i < count; i++) {
		const struct ledger_holder *holder = &record->holder[i];

		held->list[held->count++] = build_holder(b, ledger_any_site(b->view, holder->site),
							 holder->bytes, holder->blocks);
	}
	report_merge_holders(held);
	report_divide_holders(b, held, record->inside_bytes);
	entry->tracked_bytes = held->other_bytes;
	for (size_t i = 0; i < held->count; i++)
		entry->tracked_bytes = add_bounded(entry->tracked_bytes, held->list[i].bytes);
}

/* ---- requests ---- */

static uint64_t count_allocs(const struct builder *b, enum ledger_chunk_type type)
{
	struct ledger_walk walk = { 0 };
	const struct ledger_site *site;
	uint64_t allocs = 0;

	while ((site = ledger_next(b->view, &walk, type, sizeof(*site))))
		allocs = add_bounded(allocs, site->allocs);
	return allocs;
}

static bool went_on(const struct builder *b, const struct ledger_out_of_memory *record)
{
	if (!(record->state & LEDGER_REFUSAL_HOLDERS))
		return true;
	return count_allocs(b, LEDGER_CHUNK_SITES) > record->allocs ||
	       count_allocs(b, LEDGER_CHUNK_SUBALLOCATION_SITES) > record->suballocs;
}

static void copy_figures(const struct ledger_out_of_memory *record,
			 struct report_out_of_memory *ret)
{
	ret->number = LEDGER_REFUSAL_NUMBER(record->state);
	ret->bytes = record->bytes;
	ret->time_ns = record->time_ns;
	ret->times = record->times;
	ret->refuser = record->refuser <= LEDGER_REFUSER_FRAMEWORK
			       ? (enum ledger_refuser)record->refuser
			       : LEDGER_REFUSER_DRIVER;
	ret->limit_bytes = record->limit_bytes;
	ret->recovered = (record->state & LEDGER_REFUSAL_RECOVERED) != 0;
	ret->gave_up = (record->state & LEDGER_REFUSAL_GAVE_UP) != 0;
	ret->has_free = (record->state & LEDGER_REFUSAL_FREE) != 0;
	ret->free_bytes = record->free_bytes;
	ret->total_bytes = record->total_bytes;
	ret->framework_bytes = record->framework_bytes;
	ret->framework_allocated = record->framework_allocated;
	ret->framework_reserved = record->framework_reserved;
}

static void read_record(struct builder *b, const struct ledger_out_of_memory *record,
			struct report_out_of_memory *ret)
{
	copy_figures(record, ret);
	ret->site = build_call(b, record->api, record->device, record->stack);
	if (ret->gave_up) {
		ret->framework = framework_of(build_text(b, record->framework_api));
		ret->framework = ret->framework ? ret->framework : build_unknown;
	}
	ret->went_on = went_on(b, record);
	if (record->state & LEDGER_REFUSAL_HOLDERS)
		read_holders(b, record, ret);
}

static int compare_numbers_of(const void *left, const void *right)
{
	const struct report_out_of_memory *a = left, *b = right;

	return compare_numbers(a->number, b->number);
}

void build_out_of_memory(struct builder *b)
{
	struct report_process *process = b->process;
	struct ledger_walk walk = { 0 };
	const struct ledger_out_of_memory *record;

	process->out_of_memory =
		arena_alloc(b->arena, RECORDS_MAX * sizeof(*process->out_of_memory));
	while (process->out_of_memory_count < RECORDS_MAX &&
	       (record = ledger_next_out_of_memory(b->view, &walk)))
		if (LEDGER_REFUSAL_NUMBER(record->state))
			read_record(b, record,
				    &process->out_of_memory[process->out_of_memory_count++]);
	SORT(process->out_of_memory, process->out_of_memory_count, compare_numbers_of);
	process->refused = ledger_header(b->view)->refused;
	if (process->refused < process->out_of_memory_count)
		process->refused = process->out_of_memory_count;
	process->recovered = ledger_header(b->view)->recovered;
}

/* ---- questions ---- */

static bool ended_well(const struct report_process *process)
{
	switch (process->ended) {
	case REPORT_EXIT:
	case REPORT__EXIT:
		return process->status == 0;
	case REPORT_EXEC:
	case REPORT_RUNNING:
		return true;
	default:
		return false;
	}
}

/* A program that fails so long after a refusal has probably failed for another reason, if it
 * allocated in between. */
#define SOON_NS 10000000000u

/* Returns true if PROCESS ended at most SOON_NS after the refusal, or if that is not known. Of a
 * process that was killed, the last sample of its live memory counts as its end. */
static bool ended_soon(const struct report_process *process,
		       const struct report_out_of_memory *entry)
{
	const struct report_series *live = &process->timeline.total;
	uint64_t end_ns = process->timeline.end_ns;

	for (size_t i = 0; !process->timeline.end_ns && i < live->count; i++)
		if (live->samples[i].time_ns > end_ns)
			end_ns = live->samples[i].time_ns;
	return end_ns <= entry->time_ns || end_ns - entry->time_ns <= SOON_NS;
}

enum report_outcome report_outcome(const struct report_process *process,
				   const struct report_out_of_memory *entry)
{
	if (entry->recovered)
		return OUTCOME_RECOVERED;
	if (entry->gave_up && !entry->went_on)
		return OUTCOME_FINAL;
	if (!ended_well(process) && (!entry->went_on || ended_soon(process, entry)))
		return OUTCOME_FINAL;
	return OUTCOME_TOLERATED;
}

const char *report_outcome_word(enum report_outcome outcome)
{
	static const char *const words[] = {
		[OUTCOME_RECOVERED] = "recovered",
		[OUTCOME_TOLERATED] = "tolerated",
		[OUTCOME_FINAL] = "final",
	};

	return words[outcome];
}

const struct report_out_of_memory *report_final_out_of_memory(const struct report_process *process)
{
	for (size_t i = process->out_of_memory_count; i--;)
		if (report_outcome(process, &process->out_of_memory[i]) == OUTCOME_FINAL)
			return &process->out_of_memory[i];
	return NULL;
}

static uint64_t distance(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

static void take_nearer(const struct driver_memory_sample **best,
			const struct driver_memory_sample *sample, uint64_t time_ns)
{
	uint64_t away = distance(sample->at_ns, time_ns);

	if (away <= NEAR_NS && (!*best || away < distance((*best)->at_ns, time_ns)))
		*best = sample;
}

const struct driver_memory_sample *report_sample_near(const struct report_process *process,
						      const struct report_out_of_memory *entry)
{
	const struct driver_memory_sample *best = NULL;
	const struct driver_memory_series *series = NULL;

	for (size_t i = 0; i < process->device_count && !series; i++)
		if (process->devices[i].ordinal == entry->site->device)
			series = process->devices[i].series;
	if (!series || !series->taken || series->source != DRIVER_MEMORY_NVML_PROCESS)
		return NULL;
	take_nearer(&best, &series->last, entry->time_ns);
	for (uint32_t i = 0; i < series->count; i++)
		take_nearer(&best, &series->samples[i], entry->time_ns);
	for (uint32_t i = 0; i < series->near_count && i < DRIVER_MEMORY_NEAR; i++)
		take_nearer(&best, &series->near[i], entry->time_ns);
	return best;
}

const char *report_holder_library(const struct report_leak *holder)
{
	for (size_t i = 0; i < holder->site->stack->count; i++) {
		const struct report_frame *frame = &holder->site->stack->frames[i];
		const char *slash = frame->module ? strrchr(frame->module, '/') : NULL;

		if (frame->role != FRAME_RUNTIME && frame->module)
			return slash && slash[1] ? slash + 1 : frame->module;
	}
	return NULL;
}
