/* SPDX-License-Identifier: MIT
 *
 * Creates an entry per leak, sorts the entries, and merges those with the same fingerprint.
 */
#include "report/analyze/leak_totals.h"

#include <stdlib.h>

#include "report/symbols/fingerprint.h"
#include "report/model/model.h"
#include "report/model/model_holders.h"
#include "report/model/model_suballocations.h"
#include "report/util/memory.h"
#include "report/util/number.h"

static int compare_entries(const void *left, const void *right)
{
	const struct leak_total *a = left, *b = right;

	if (a->fingerprint != b->fingerprint)
		return a->fingerprint < b->fingerprint ? -1 : 1;
	return a->bytes > b->bytes ? -1 : a->bytes < b->bytes; /* the largest first */
}

static void add_entry(struct leak_totals *totals, struct leak_total entry)
{
	*LIST_ADD(totals->entries, totals->count) = entry;
}

static void add_leak(struct leak_totals *totals, const struct report_leak *leak, uint64_t bytes,
		     uint64_t blocks)
{
	add_entry(totals,
		  (struct leak_total){ report_site_fingerprint(leak->site), bytes, blocks, leak });
}

static void add_leaks(struct leak_totals *totals, const struct report_process *process)
{
	for (size_t i = 0; i < process->leak_count; i++)
		add_leak(totals, &process->leaks[i], process->leaks[i].bytes,
			 process->leaks[i].blocks);
}

static void add_accumulations(struct leak_totals *totals, const struct report_process *process)
{
	for (size_t i = 0; i < process->suballocation_count; i++) {
		const struct report_suballocations *site = &process->suballocations[i];

		if (report_accumulates(site))
			add_leak(totals, &site->live, site->kept_bytes, site->kept_blocks);
	}
}

static void add_peaks(struct leak_totals *totals, const struct report_process *process)
{
	for (size_t i = 0; i < process->peak_count; i++) {
		const struct report_holders *held = &process->peaks[i].held;

		for (size_t j = 0; j < held->count; j++)
			add_leak(totals, &held->list[j], held->list[j].bytes,
				 held->list[j].blocks);
	}
}

static void add_objects(struct leak_totals *totals, const struct report_process *process)
{
	for (size_t i = 0; i < process->object_count; i++)
		if (!process->objects[i].pattern)
			add_leak(totals, &process->objects[i], 0, process->objects[i].blocks);
}

/* Merges entries with the same fingerprint. */
static void merge_entries(struct leak_totals *totals)
{
	size_t kept = 0;

	SORT(totals->entries, totals->count, compare_entries);
	for (size_t i = 0; i < totals->count; i++) {
		struct leak_total *last = kept ? &totals->entries[kept - 1] : NULL;

		if (last && last->fingerprint == totals->entries[i].fingerprint) {
			last->bytes = add_bounded(last->bytes, totals->entries[i].bytes);
			last->blocks = add_bounded(last->blocks, totals->entries[i].blocks);
		} else {
			totals->entries[kept++] = totals->entries[i];
		}
	}
	totals->count = kept;
}

typedef void add_fn(struct leak_totals *totals, const struct report_process *process);

static struct leak_totals totals_of(const struct report *report, add_fn *add)
{
	struct leak_totals ret = { 0 };

	for (size_t i = 0; i < report->count; i++)
		add(&ret, report->processes[i]);
	merge_entries(&ret);
	return ret;
}

struct leak_totals leak_totals_make(const struct report *report, unsigned int of)
{
	static const struct {
		unsigned int of;
		add_fn *add;
	} adders[] = {
		{ TOTALS_OF_LEAKS, add_leaks },
		{ TOTALS_OF_ACCUMULATIONS, add_accumulations },
		{ TOTALS_OF_PEAKS, add_peaks },
		{ TOTALS_OF_OBJECTS, add_objects },
	};
	struct leak_totals ret = { 0 };

	for (size_t i = 0; i < sizeof(adders) / sizeof(adders[0]); i++) {
		struct leak_totals some = { 0 };

		if (of & adders[i].of)
			some = totals_of(report, adders[i].add);
		for (size_t j = 0; j < some.count; j++)
			add_entry(&ret, some.entries[j]);
		leak_totals_finish(&some);
	}
	merge_entries(&ret);
	return ret;
}

static int compare_fingerprint(const void *key, const void *value)
{
	const struct leak_total *entry = value;
	uint64_t wanted = *(const uint64_t *)key;

	return wanted < entry->fingerprint ? -1 : wanted > entry->fingerprint;
}

const struct leak_total *leak_totals_find(const struct leak_totals *totals, uint64_t fingerprint)
{
	return totals->count ? bsearch(&fingerprint, totals->entries, totals->count,
				       sizeof(*totals->entries), compare_fingerprint)
			     : NULL;
}

static int compare_by_size(const void *left, const void *right)
{
	const struct leak_total *a = left, *b = right;

	if (a->bytes != b->bytes)
		return a->bytes > b->bytes ? -1 : 1;
	if (a->blocks != b->blocks)
		return a->blocks > b->blocks ? -1 : 1;
	return a->fingerprint < b->fingerprint ? -1 : a->fingerprint > b->fingerprint;
}

void leak_totals_sort_by_size(struct leak_totals *totals)
{
	SORT(totals->entries, totals->count, compare_by_size);
}

void leak_totals_finish(struct leak_totals *totals)
{
	free(totals->entries);
	*totals = (struct leak_totals){ 0 };
}
