/* SPDX-License-Identifier: MIT
 *
 * Creates an entry per leak, sorts the entries, and merges those with the same fingerprint.
 */
#include "report/analyze/leak_totals.h"

#include <errno.h>
#include <stdlib.h>

#include "report/symbols/fingerprint.h"
#include "report/model/model.h"
#include "report/model/model_holders.h"
#include "report/model/model_suballocations.h"
#include "report/util/number.h"

uint64_t report_leak_fingerprint(const struct report_leak *leak)
{
	return leak->fingerprint ? leak->fingerprint
				 : report_fingerprint(leak->api, leak->kind, leak->stack);
}

static int compare_entries(const void *left, const void *right)
{
	const struct leak_total *a = left, *b = right;

	if (a->fingerprint != b->fingerprint)
		return a->fingerprint < b->fingerprint ? -1 : 1;
	return a->bytes > b->bytes ? -1 : a->bytes < b->bytes; /* the largest first */
}

static size_t count_leaks(const struct report *report)
{
	size_t count = 0;

	for (size_t i = 0; i < report->count; i++)
		count += report->processes[i]->leak_count;
	return count;
}

/* Merges entries with the same fingerprint. */
static void merge_entries(struct leak_totals *totals)
{
	size_t kept = 0;

	if (totals->count)
		qsort(totals->entries, totals->count, sizeof(*totals->entries), compare_entries);
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

int leak_totals_make(const struct report *report, struct leak_totals *ret)
{
	struct leak_totals totals = { 0 };

	totals.entries = calloc(count_leaks(report) + 1, sizeof(*totals.entries));
	if (!totals.entries)
		return -ENOMEM;
	for (size_t i = 0; i < report->count; i++) {
		const struct report_process *process = report->processes[i];

		for (size_t j = 0; j < process->leak_count; j++) {
			const struct report_leak *leak = &process->leaks[j];

			totals.entries[totals.count++] =
				(struct leak_total){ report_leak_fingerprint(leak), leak->bytes,
						     leak->blocks, leak };
		}
	}
	merge_entries(&totals);
	*ret = totals;
	return 0;
}

int accumulation_totals_make(const struct report *report, struct leak_totals *ret)
{
	struct leak_totals totals = { 0 };
	size_t room = 1;

	for (size_t i = 0; i < report->count; i++)
		room += report->processes[i]->suballocation_count;
	totals.entries = calloc(room, sizeof(*totals.entries));
	if (!totals.entries)
		return -ENOMEM;
	for (size_t i = 0; i < report->count; i++) {
		const struct report_process *process = report->processes[i];

		for (size_t j = 0; j < process->suballocation_count; j++) {
			const struct report_suballocations *site = &process->suballocations[j];

			if (!report_accumulates(site))
				continue;
			totals.entries[totals.count++] = (struct leak_total){
				report_leak_fingerprint(&site->live), site->kept_bytes,
				site->kept_blocks, &site->live,
			};
		}
	}
	merge_entries(&totals);
	*ret = totals;
	return 0;
}

static void add_holders(struct leak_totals *totals, const struct report_holders *held)
{
	for (size_t i = 0; i < held->count; i++)
		totals->entries[totals->count++] = (struct leak_total){
			report_leak_fingerprint(&held->list[i]), held->list[i].bytes,
			held->list[i].blocks, &held->list[i],
		};
}

int peak_totals_make(const struct report *report, struct leak_totals *ret)
{
	struct leak_totals totals = { 0 };
	size_t room = 1;

	for (size_t i = 0; i < report->count; i++)
		for (size_t j = 0; j < report->processes[i]->peak_count; j++)
			room += report->processes[i]->peaks[j].held.count;
	totals.entries = calloc(room, sizeof(*totals.entries));
	if (!totals.entries)
		return -ENOMEM;
	for (size_t i = 0; i < report->count; i++)
		for (size_t j = 0; j < report->processes[i]->peak_count; j++)
			add_holders(&totals, &report->processes[i]->peaks[j].held);
	merge_entries(&totals);
	*ret = totals;
	return 0;
}

int object_totals_make(const struct report *report, struct leak_totals *ret)
{
	struct leak_totals totals = { 0 };
	size_t room = 1;

	for (size_t i = 0; i < report->count; i++)
		room += report->processes[i]->object_count;
	totals.entries = calloc(room, sizeof(*totals.entries));
	if (!totals.entries)
		return -ENOMEM;
	for (size_t i = 0; i < report->count; i++) {
		const struct report_process *process = report->processes[i];

		for (size_t j = 0; j < process->object_count; j++) {
			const struct report_leak *object = &process->objects[j];

			if (!object->pattern)
				totals.entries[totals.count++] = (struct leak_total){
					report_leak_fingerprint(object), 0, object->blocks, object,
				};
		}
	}
	merge_entries(&totals);
	*ret = totals;
	return 0;
}

/* Adds the entries of MORE to ALL. Returns 0 or -ENOMEM. */
static int add_totals(struct leak_totals *all, const struct leak_totals *more)
{
	struct leak_total *entries = reallocarray(all->entries, all->count + more->count + 1,
						  sizeof(*entries));

	if (!entries)
		return -ENOMEM;
	all->entries = entries;
	for (size_t i = 0; i < more->count; i++)
		entries[all->count++] = more->entries[i];
	merge_entries(all);
	return 0;
}

int baseline_totals_make(const struct report *report, bool with_objects, struct leak_totals *ret)
{
	struct leak_totals objects = { 0 }, all = { 0 };
	int r = all_totals_make(report, &all);

	if (r == 0 && with_objects)
		r = object_totals_make(report, &objects);
	if (r == 0)
		r = add_totals(&all, &objects);
	leak_totals_finish(&objects);
	if (r < 0)
		leak_totals_finish(&all);
	else
		*ret = all;
	return r;
}

int all_totals_make(const struct report *report, struct leak_totals *ret)
{
	struct leak_totals leaks = { 0 }, accumulating = { 0 }, all;
	int r = leak_totals_make(report, &leaks);

	if (r == 0)
		r = accumulation_totals_make(report, &accumulating);
	all.count = leaks.count + accumulating.count;
	all.entries = r == 0 ? calloc(all.count + 1, sizeof(*all.entries)) : NULL;
	if (all.entries) {
		for (size_t i = 0; i < leaks.count; i++)
			all.entries[i] = leaks.entries[i];
		for (size_t i = 0; i < accumulating.count; i++)
			all.entries[leaks.count + i] = accumulating.entries[i];
		merge_entries(&all);
		*ret = all;
	} else {
		r = -ENOMEM;
	}
	leak_totals_finish(&leaks);
	leak_totals_finish(&accumulating);
	return r;
}

static int compare_fingerprint(const void *key, const void *value)
{
	const struct leak_total *entry = value;
	uint64_t wanted = *(const uint64_t *)key;

	return wanted < entry->fingerprint ? -1 : wanted > entry->fingerprint;
}

const struct leak_total *leak_totals_find(const struct leak_totals *totals, uint64_t fingerprint)
{
	return bsearch(&fingerprint, totals->entries, totals->count, sizeof(*totals->entries),
		       compare_fingerprint);
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
	if (totals->count)
		qsort(totals->entries, totals->count, sizeof(*totals->entries), compare_by_size);
}

void leak_totals_finish(struct leak_totals *totals)
{
	free(totals->entries);
	*totals = (struct leak_totals){ 0 };
}
