/* SPDX-License-Identifier: MIT
 *
 * One entry a leak, sorted, then those of one fingerprint made one.
 */
#include "report/analyze/leak_totals.h"

#include <errno.h>
#include <stdlib.h>

#include "report/symbols/fingerprint.h"
#include "report/model/model.h"
#include "report/util/number.h"

uint64_t report_leak_fingerprint(const struct report_leak *leak)
{
	return leak->fingerprint ? leak->fingerprint
				 : report_fingerprint(leak->api, leak->kind, leak->stack);
}

static int compare_entries(const void *left, const void *right)
{
	const struct tally_entry *a = left, *b = right;

	if (a->fingerprint != b->fingerprint)
		return a->fingerprint < b->fingerprint ? -1 : 1;
	return a->bytes > b->bytes ? -1 : a->bytes < b->bytes; /* the largest comes first */
}

static size_t count_leaks(const struct report *report)
{
	size_t count = 0;

	for (size_t i = 0; i < report->count; i++)
		count += report->processes[i]->leak_count;
	return count;
}

int tally_leaks(const struct report *report, struct tally *ret)
{
	struct tally tally = { 0 };
	size_t kept = 0;

	tally.entries = calloc(count_leaks(report) + 1, sizeof(*tally.entries));
	if (!tally.entries)
		return -ENOMEM;
	for (size_t i = 0; i < report->count; i++) {
		const struct report_process *process = report->processes[i];

		for (size_t j = 0; j < process->leak_count; j++) {
			const struct report_leak *leak = &process->leaks[j];

			tally.entries[tally.count++] = (struct tally_entry){
				report_leak_fingerprint(leak), leak->bytes, leak->blocks, leak };
		}
	}
	if (tally.count)
		qsort(tally.entries, tally.count, sizeof(*tally.entries), compare_entries);
	for (size_t i = 0; i < tally.count; i++) {
		struct tally_entry *last = kept ? &tally.entries[kept - 1] : NULL;

		if (last && last->fingerprint == tally.entries[i].fingerprint) {
			last->bytes = add_bounded(last->bytes, tally.entries[i].bytes);
			last->blocks = add_bounded(last->blocks, tally.entries[i].blocks);
		} else {
			tally.entries[kept++] = tally.entries[i];
		}
	}
	tally.count = kept;
	*ret = tally;
	return 0;
}

static int compare_fingerprint(const void *key, const void *value)
{
	const struct tally_entry *entry = value;
	uint64_t wanted = *(const uint64_t *)key;

	return wanted < entry->fingerprint ? -1 : wanted > entry->fingerprint;
}

const struct tally_entry *tally_find(const struct tally *tally, uint64_t fingerprint)
{
	return bsearch(&fingerprint, tally->entries, tally->count, sizeof(*tally->entries),
		       compare_fingerprint);
}

static int compare_by_size(const void *left, const void *right)
{
	const struct tally_entry *a = left, *b = right;

	if (a->bytes != b->bytes)
		return a->bytes > b->bytes ? -1 : 1;
	if (a->blocks != b->blocks)
		return a->blocks > b->blocks ? -1 : 1;
	return a->fingerprint < b->fingerprint ? -1 : a->fingerprint > b->fingerprint;
}

void tally_sort_by_size(struct tally *tally)
{
	if (tally->count)
		qsort(tally->entries, tally->count, sizeof(*tally->entries), compare_by_size);
}

void tally_finish(struct tally *tally)
{
	free(tally->entries);
	*tally = (struct tally){ 0 };
}
