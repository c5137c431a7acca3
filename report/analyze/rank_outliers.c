/* SPDX-License-Identifier: MIT
 *
 * Finds ranks that differ from the majority (more than half of the ranks), if there is one, and
 * those without a ledger. Failed ranks come first: a failure explains other differences.
 */
#include "report/analyze/ranks.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/describe/format_place.h"
#include "report/model/model_holders.h"
#include "report/util/number.h"
#include "report/util/report_arena.h"
#include "report/util/memory.h"

#define ODD_MAX 20   /* maximum number of sentences */
#define NAMED_MAX 8  /* maximum number of ranks in a sentence */
#define NAMES_BYTES 128
#define ENDED_BYTES 64

__attribute__((format(printf, 2, 3)))
static void add_outlier(struct ranks *ranks, const char *format, ...)
{
	va_list args;

	if (ranks->odd_count >= ODD_MAX)
		return;
	va_start(args, format);
	ranks->odd[ranks->odd_count++] = arena_vprintf(ranks->arena, format, args);
	va_end(args);
}

/* Writes "rank 3", "ranks 1, 3 and 5" or "12 ranks" for the ranks marked in CHOSEN. */
static const char *name_ranks(const struct ranks *ranks, const char *chosen,
			      char ret[NAMES_BYTES])
{
	size_t count = 0, named = 0, at;

	for (size_t i = 0; i < ranks->count; i++)
		count += chosen[i] != 0;
	if (count > NAMED_MAX) {
		snprintf(ret, NAMES_BYTES, "%zu ranks", count);
		return ret;
	}
	at = (size_t)snprintf(ret, NAMES_BYTES, "rank%s", plural(count));
	for (size_t i = 0; i < ranks->count; i++)
		if (chosen[i])
			at += (size_t)snprintf(ret + at, NAMES_BYTES - at, "%s%d",
					       ++named == 1 ? " " : named == count ? " and " : ", ",
					       ranks->numbers[i]);
	return ret;
}

/* Writes how PROCESS failed, or "" if it did not. */
static void bad_end(const struct report_process *process, char ret[ENDED_BYTES])
{
	const char *name;

	ret[0] = '\0';
	if (process->ended == REPORT_SIGNAL) {
		name = signal_name(process->status);
		snprintf(ret, ENDED_BYTES, "killed by signal %d%s%s%s", process->status,
			 name ? " (SIG" : "", name ? name : "", name ? ")" : "");
	} else if (process->ended == REPORT_UNKNOWN) {
		snprintf(ret, ENDED_BYTES, "killed (cause unknown)");
	} else if ((process->ended == REPORT_EXIT || process->ended == REPORT__EXIT) &&
		   process->status) {
		snprintf(ret, ENDED_BYTES, "ended with status %d", process->status);
	}
}

/* Adds one sentence for each way in which ranks failed. */
static void find_ends(const struct report *report, struct ranks *ranks, char *chosen)
{
	char (*ends)[ENDED_BYTES] = calloc(ranks->count, sizeof(*ends)), names[NAMES_BYTES];
	size_t bad = 0, at;

	ranks->ended_badly = arena_alloc(ranks->arena, ranks->count);
	for (size_t i = 0; i < report->count; i++) {
		const struct report_process *process = report->processes[i];

		if (!process->ranked)
			continue;
		at = ranks_index(ranks, process->rank);
		if (!ends[at][0]) {
			bad_end(process, ends[at]);
			bad += ends[at][0] != '\0';
			ranks->ended_badly[at] = ends[at][0] != '\0';
		}
	}
	for (size_t i = 0; i < ranks->count && bad < ranks->count; i++) {
		char end[ENDED_BYTES];
		int several = 0;

		if (!ends[i][0])
			continue;
		strcpy(end, ends[i]);
		for (size_t j = 0; j < ranks->count; j++) {
			chosen[j] = strcmp(ends[j], end) == 0;
			several += chosen[j];
			if (chosen[j])
				ends[j][0] = '\0';
		}
		add_outlier(ranks, "%s %s%s", name_ranks(ranks, chosen, names),
			    strncmp(end, "killed", 6) != 0 ? ""
			    : several == 1		   ? "was "
							   : "were ",
			    end);
	}
	free(ends);
}

static int compare_bytes(const void *left, const void *right)
{
	return compare_numbers(*(const uint64_t *)left, *(const uint64_t *)right);
}

/* Finds the number of bytes of LEAK that more than half of the ranks leak. Returns false if there
 * is no such number. */
static bool find_usual(const struct ranks *ranks, const struct rank_leak *leak,
		       uint64_t *sorted, uint64_t *ret)
{
	size_t absent = ranks->count - leak->count, run = 1;

	*ret = 0;
	if (2 * absent > ranks->count)
		return true;
	for (size_t i = 0; i < leak->count; i++)
		sorted[i] = leak->parts[i].bytes;
	SORT(sorted, leak->count, compare_bytes);
	for (size_t i = 0; i < leak->count; i++) {
		run = i > 0 && sorted[i] == sorted[i - 1] ? run + 1 : 1;
		*ret = sorted[i];
		if (2 * run > ranks->count)
			return true;
	}
	return false;
}

static void add_absent_ranks(struct ranks *ranks, const struct rank_leak *leak, uint64_t usual,
			     char *chosen)
{
	char names[NAMES_BYTES];
	size_t absent = 0;

	for (size_t i = 0; i < ranks->count; i++) {
		/* if the rank failed, it may have ended before it could leak */
		chosen[i] = !chosen[i] && !ranks->ended_badly[i];
		absent += chosen[i] != 0;
	}
	if (absent)
		add_outlier(ranks, "%s %s not leak the %s that %zu of %zu ranks leak at %s",
			    name_ranks(ranks, chosen, names), absent == 1 ? "does" : "do",
			    SIZE(usual), leak->count, ranks->count,
			    PLACE(leak->leak->site->stack));
}

static void find_leaks(struct ranks *ranks, const struct rank_leak *leak, char *chosen,
		       uint64_t *sorted)
{
	const struct report_stack *stack = leak->leak->site->stack;
	char names[NAMES_BYTES];
	uint64_t usual;

	if (!find_usual(ranks, leak, sorted, &usual))
		return;
	memset(chosen, 0, ranks->count);
	for (size_t i = 0; i < leak->count; i++)
		chosen[leak->parts[i].rank] = 1;
	if (2 * (ranks->count - leak->count) > ranks->count) {
		add_outlier(ranks, "only %s leak%s %s at %s", name_ranks(ranks, chosen, names),
			    leak->count == 1 ? "s" : "", SIZE(leak->bytes), PLACE(stack));
		return;
	}
	EACH_ITEM(leak->parts, leak->count, part) {
		bool above = part->bytes > usual;

		if (part->bytes != usual)
			add_outlier(ranks, "rank %d leaks %s %s than the %s of the others at %s",
				    ranks->numbers[part->rank],
				    SIZE(above ? part->bytes - usual : usual - part->bytes),
				    above ? "more" : "less", SIZE(usual), PLACE(stack));
	}
	add_absent_ranks(ranks, leak, usual, chosen);
}

/* Counts the missing ranks. If they are many, the report is only about a part of the job. */
static void find_missing(struct ranks *ranks)
{
	const int *at = ranks->numbers, *end = at + ranks->count - 1;
	int64_t missing = (int64_t)*end - *at - (end - at);

	if (missing == 0 || missing > (end - at) / 4)
		return;
	while (at[1] == at[0] + 1)
		at++;
	add_outlier(ranks, missing == 1 ? "no ledger of rank %d" : "no ledger of rank %d and %s",
		    *at + 1, COUNT((uint64_t)missing - 1, "other rank"));
}

/* Returns the peak without what leaked, because leaks have sentences of their own. */
static uint64_t peak_of(const struct report_process *process)
{
	return less(process->summary.peak_bytes, process->summary.leaked_bytes);
}

static int compare_peaks(const void *left, const void *right)
{
	return compare_numbers(peak_of(*(const struct report_process *const *)left),
			       peak_of(*(const struct report_process *const *)right));
}

/* Returns by how much the peak of A is above that of B, or 0 if that is little. */
static uint64_t above(const struct report_process *a, const struct report_process *b)
{
	uint64_t ret = less(peak_of(a), peak_of(b));

	return ret > (1 << 20) + peak_of(b) / 8 ? ret : 0;
}

/* Returns by how much the call sites like SITE had more at the highest peak of A than of B. */
static uint64_t above_at(const struct report_site *site, const struct report_process *a,
			 const struct report_process *b)
{
	const struct report_holders *held = &a->peaks[0].held;
	uint64_t of_b = b ? above_at(site, b, NULL) : 0, bytes = 0;

	for (size_t i = 0; i < held->count; i++)
		if (report_site_fingerprint2(held->list[i].site) == report_site_fingerprint2(site))
			bytes = add_bounded(bytes, held->list[i].bytes);
	return less(bytes, of_b);
}

/* Adds a sentence about PROCESS, which had more at its peak than MEDIAN, the one in the middle. */
static void add_peak(struct ranks *ranks, const struct report_process *process,
		     const struct report_process *median)
{
	const struct report_holders *held = &process->peaks[0].held;
	const struct report_site *most = held->list[0].site;

	for (size_t i = 1; i < held->count && ranks->odd_count < ODD_MAX; i++)
		if (above_at(held->list[i].site, process, median) > above_at(most, process, median))
			most = held->list[i].site;
	add_outlier(ranks, "rank %d peaks at %s, %s more than the median, %s of it at %s",
		    process->rank, SIZE(process->summary.peak_bytes),
		    SIZE(above(process, median)), SIZE(above_at(most, process, median)),
		    PLACE(most->stack));
}

/* Names ranks above the median if most ranks are near it. A rank that failed is named already. */
static void find_peaks(const struct report *report, struct ranks *ranks)
{
	const struct report_process **list = calloc(report->count + 1, sizeof(*list)), *median;
	size_t count = 0, near = 0;

	for (size_t i = 0; i < report->count; i++)
		if (report->processes[i]->ranked && report->processes[i]->peak_count &&
		    report->processes[i]->peaks[0].held.count &&
		    !ranks->ended_badly[ranks_index(ranks, report->processes[i]->rank)])
			list[count++] = report->processes[i];
	SORT(list, count, compare_peaks);
	median = list[count / 2];
	for (size_t i = 0; i < count; i++)
		near += !above(list[i], median) && !above(median, list[i]);
	for (size_t i = count; 2 * near > count && i-- && above(list[i], median);)
		add_peak(ranks, list[i], median);
	free(list);
}

void ranks_find_odd(const struct report *report, struct ranks *ranks)
{
	char *chosen = calloc(ranks->count, 1);
	uint64_t *sorted = calloc(ranks->count, sizeof(*sorted));

	ranks->odd = arena_alloc(ranks->arena, ODD_MAX * sizeof(*ranks->odd));
	find_ends(report, ranks, chosen);
	find_missing(ranks);
	for (size_t i = 0; i < ranks->leak_count && ranks->odd_count < ODD_MAX; i++)
		find_leaks(ranks, &ranks->leaks[i], chosen, sorted);
	find_peaks(report, ranks);
	free(chosen);
	free(sorted);
}
