/* SPDX-License-Identifier: MIT
 *
 * Creates an entry per leak, sorts the entries, and merges those with the same fingerprint.
 */
#include "report/analyze/leak_totals.h"

#include <stdlib.h>

#include "report/model/model.h"
#include "report/model/model_holders.h"
#include "report/model/model_suballocations.h"
#include "report/util/memory.h"
#include "report/util/number.h"

static void add(struct leak_totals *totals, struct leak_total entry)
{
	if (!entry.largest->pattern)
		*LIST_ADD(totals->entries, totals->count) = entry;
}

static void add_list(struct leak_totals *totals, unsigned int of,
		     const struct report_process *process, const struct report_leak *leaks,
		     size_t count)
{
	for (size_t i = 0; i < count; i++)
		add(totals, (struct leak_total){ of, process, &leaks[i], .bytes = leaks[i].bytes,
						 .blocks = leaks[i].blocks,
						 .keeps = of == TOTALS_OF_LEAKS
								  ? leaks[i].keeps_bytes
								  : leaks[i].bytes });
}

static void add_accumulations(struct leak_totals *totals, const struct report_process *process)
{
	EACH_ITEM(process->suballocations, process->suballocation_count, entry) {
		if (report_accumulates(entry))
			add(totals, (struct leak_total){ TOTALS_OF_ACCUMULATIONS, process,
							 &entry->live, .bytes = entry->kept_bytes,
							 .blocks = entry->kept_blocks,
							 .keeps = entry->kept_bytes });
	}
}

struct leak_totals leak_totals_list_by(const struct report *report, unsigned int of,
				       leak_key_fn *key, const void *data)
{
	struct leak_totals ret = { 0 };

	for (size_t i = 0; i < report->count; i++) {
		const struct report_process *p = report->processes[i];

		if (of & TOTALS_OF_LEAKS)
			add_list(&ret, TOTALS_OF_LEAKS, p, p->leaks, p->leak_count);
		if (of & TOTALS_OF_CACHES)
			add_list(&ret, TOTALS_OF_CACHES, p, p->cached, p->cached_count);
		if (of & TOTALS_OF_OBJECTS)
			add_list(&ret, TOTALS_OF_OBJECTS, p, p->objects, p->object_count);
		for (size_t j = 0; of & TOTALS_OF_CONTEXT_ENDS && j < p->context_end_count; j++)
			add_list(&ret, TOTALS_OF_CONTEXT_ENDS, p, &p->context_ends[j].lost,
				 p->context_ends[j].lost.cache ? 0 : 1);
		if (of & TOTALS_OF_ACCUMULATIONS)
			add_accumulations(&ret, p);
		for (size_t j = 0; of & TOTALS_OF_PEAKS && j < p->peak_count; j++)
			add_list(&ret, TOTALS_OF_PEAKS, p, p->peaks[j].held.list,
				 p->peaks[j].held.count);
	}
	for (size_t i = 0; i < ret.count; i++)
		ret.entries[i].fingerprint = key(ret.entries[i].largest->site, data);
	return ret;
}

/* Of equal fingerprints, the largest comes first. */
static int compare_entries(const void *left, const void *right)
{
	const struct leak_total *a = left, *b = right;

	return compare_numbers(a->fingerprint, b->fingerprint)
	       ?: compare_numbers(b->bytes, a->bytes);
}

struct leak_totals leak_totals_make_by(const struct report *report, unsigned int of,
				       leak_key_fn *key, const void *data)
{
	struct leak_totals ret = leak_totals_list_by(report, of, key, data);
	size_t kept = 0;

	SORT(ret.entries, ret.count, compare_entries);
	for (size_t i = 0; i < ret.count; i++) {
		struct leak_total *last = kept ? &ret.entries[kept - 1] : NULL;

		if (last && last->fingerprint == ret.entries[i].fingerprint) {
			last->bytes = add_bounded(last->bytes, ret.entries[i].bytes);
			last->blocks = add_bounded(last->blocks, ret.entries[i].blocks);
		} else {
			ret.entries[kept++] = ret.entries[i];
		}
	}
	ret.count = kept;
	return ret;
}

static uint64_t fingerprint_of(const struct report_site *site, const void *data)
{
	(void)data;
	return report_site_fingerprint(site);
}

struct leak_totals leak_totals_make(const struct report *report, unsigned int of)
{
	return leak_totals_make_by(report, of, fingerprint_of, NULL);
}

static int compare_fingerprint(const void *key, const void *value)
{
	const struct leak_total *entry = value;

	return compare_numbers(*(const uint64_t *)key, entry->fingerprint);
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

	return compare_numbers(b->bytes, a->bytes) ?: compare_numbers(b->blocks, a->blocks)
	       ?: compare_numbers(a->fingerprint, b->fingerprint);
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

bool report_was_attached(const struct report *report)
{
	for (size_t i = 0; i < report->count; i++)
		if (report->processes[i]->attached)
			return true;
	return false;
}
