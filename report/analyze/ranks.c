/* SPDX-License-Identifier: MIT
 *
 * Sorts the leaks of all ranks by fingerprint, place and rank, so that equal leaks are
 * neighbours. Memory use is proportional to the number of leaks, not to leaks times ranks.
 */
#include "report/analyze/ranks.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "report/util/number.h"
#include "report/util/report_arena.h"
#include "report/analyze/rank_outliers.h"
#include "report/analyze/leak_totals.h"

/* A leak of one process. */
struct found {
	uint64_t fingerprint, place;
	size_t rank;
	const struct report_leak *leak;
};

/* Returns a number for the place of LEAK in addition to the fingerprint, because two lines of one
 * function are two leaks for a reader. */
static uint64_t place_of(const struct report_leak *leak)
{
	const struct report_frame *frame = report_stack_culprit(leak->stack);

	return !frame ? 0 : frame->line ? frame->line : frame->offset;
}

static int compare_found(const void *left, const void *right)
{
	const struct found *a = left, *b = right;

	if (a->fingerprint != b->fingerprint)
		return a->fingerprint < b->fingerprint ? -1 : 1;
	if (a->place != b->place)
		return a->place < b->place ? -1 : 1;
	return a->rank < b->rank ? -1 : a->rank > b->rank;
}

static bool same_leak(const struct found *a, const struct found *b)
{
	return a->fingerprint == b->fingerprint && a->place == b->place;
}

static int compare_ints(const void *left, const void *right)
{
	int a = *(const int *)left, b = *(const int *)right;

	return a < b ? -1 : a > b;
}

static int read_numbers(const struct report *report, struct ranks *ranks)
{
	int *numbers = arena_alloc(ranks->arena, (report->count + 1) * sizeof(*numbers));
	size_t count = 0;

	if (!numbers)
		return -ENOMEM;
	for (size_t i = 0; i < report->count; i++)
		if (report->processes[i]->ranked)
			numbers[count++] = report->processes[i]->rank;
	ranks->all = count == report->count;
	if (count)
		qsort(numbers, count, sizeof(*numbers), compare_ints);
	for (size_t i = 0; i < count; i++)
		if (ranks->count == 0 || numbers[ranks->count - 1] != numbers[i])
			numbers[ranks->count++] = numbers[i];
	ranks->numbers = numbers;
	return 0;
}

size_t ranks_index(const struct ranks *ranks, int number)
{
	const int *at = bsearch(&number, ranks->numbers, ranks->count, sizeof(*ranks->numbers),
				compare_ints);

	return (size_t)(at - ranks->numbers);
}

/* Stores in *RET an array of all leaks of ranked processes. The caller frees it. */
static int find_leaks(const struct report *report, struct ranks *ranks, struct found **ret,
		      size_t *ret_count)
{
	size_t room = 0, count = 0, rank;
	struct found *found;

	for (size_t i = 0; i < report->count; i++)
		room += report->processes[i]->leak_count;
	found = calloc(room + 1, sizeof(*found));
	if (!found)
		return -ENOMEM;
	for (size_t i = 0; i < report->count; i++) {
		const struct report_process *p = report->processes[i];

		if (!p->ranked)
			continue;
		rank = ranks_index(ranks, p->rank);
		for (size_t j = 0; j < p->leak_count; j++)
			found[count++] = (struct found){
				report_leak_fingerprint(&p->leaks[j]),
				place_of(&p->leaks[j]), rank, &p->leaks[j] };
	}
	if (count)
		qsort(found, count, sizeof(*found), compare_found);
	*ret = found;
	*ret_count = count;
	return 0;
}

/* Makes one rank_leak of the COUNT equal leaks at FOUND. Returns 0 or -ENOMEM. */
static int make_leak(struct ranks *ranks, const struct found *found, size_t count,
		     struct rank_leak *ret)
{
	struct rank_part *part = NULL;

	*ret = (struct rank_leak){ .leak = found->leak, .same_device = true };
	ret->parts = arena_alloc(ranks->arena, count * sizeof(*ret->parts));
	if (!ret->parts)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		const struct report_leak *leak = found[i].leak;

		if (!part || part->rank != found[i].rank) {
			part = &ret->parts[ret->count++];
			part->rank = found[i].rank;
		}
		part->bytes = add_bounded(part->bytes, leak->bytes);
		part->blocks = add_bounded(part->blocks, leak->blocks);
		ret->bytes = add_bounded(ret->bytes, leak->bytes);
		ret->blocks = add_bounded(ret->blocks, leak->blocks);
		ret->same_device &= leak->device == ret->leak->device;
	}
	for (size_t i = 0; i < count && ret->count > 1; i++)
		ranks->shared[ranks->shared_count++] = found[i].leak;
	return 0;
}

static int compare_leaks(const void *left, const void *right)
{
	const struct rank_leak *a = left, *b = right;

	if (a->bytes != b->bytes)
		return a->bytes > b->bytes ? -1 : 1;
	return a->blocks > b->blocks ? -1 : a->blocks < b->blocks;
}

static int compare_pointers(const void *left, const void *right)
{
	const struct report_leak *a = *(const struct report_leak *const *)left;
	const struct report_leak *b = *(const struct report_leak *const *)right;

	return a < b ? -1 : a > b;
}

static int count_leaking(struct ranks *ranks)
{
	char *leaks = arena_alloc(ranks->arena, ranks->count);

	if (!leaks)
		return -ENOMEM;
	for (size_t i = 0; i < ranks->leak_count; i++)
		for (size_t j = 0; j < ranks->leaks[i].count; j++)
			leaks[ranks->leaks[i].parts[j].rank] = 1;
	for (size_t i = 0; i < ranks->count; i++)
		ranks->leaking += leaks[i] != 0;
	return 0;
}

static int put_together(struct ranks *ranks, const struct found *found, size_t count)
{
	int r = 0;

	ranks->leaks = arena_alloc(ranks->arena, count * sizeof(*ranks->leaks));
	ranks->shared = arena_alloc(ranks->arena, count * sizeof(*ranks->shared));
	if (!ranks->leaks || !ranks->shared)
		return -ENOMEM;
	for (size_t at = 0, next; at < count && r == 0; at = next) {
		next = at + 1;
		while (next < count && same_leak(&found[at], &found[next]))
			next++;
		r = make_leak(ranks, &found[at], next - at, &ranks->leaks[ranks->leak_count++]);
	}
	if (r < 0)
		return r;
	if (ranks->leak_count)
		qsort(ranks->leaks, ranks->leak_count, sizeof(*ranks->leaks), compare_leaks);
	if (ranks->shared_count)
		qsort(ranks->shared, ranks->shared_count, sizeof(*ranks->shared),
		      compare_pointers);
	return count_leaking(ranks);
}

int ranks_find(const struct report *report, struct ranks *ret)
{
	struct ranks ranks = { .arena = calloc(1, sizeof(*ranks.arena)) };
	struct found *found = NULL;
	size_t count = 0;
	int r = ranks.arena ? read_numbers(report, &ranks) : -ENOMEM;

	if (r == 0 && ranks.count > 1)
		r = find_leaks(report, &ranks, &found, &count);
	if (r == 0 && ranks.count > 1)
		r = put_together(&ranks, found, count);
	if (r == 0 && ranks.count > 1)
		r = ranks_find_odd(report, &ranks);
	free(found);
	if (r < 0)
		ranks_finish(&ranks);
	else
		*ret = ranks;
	return r;
}

bool ranks_shares(const struct ranks *ranks, const struct report_leak *leak)
{
	return ranks->shared_count && bsearch(&leak, ranks->shared, ranks->shared_count,
					      sizeof(*ranks->shared), compare_pointers) != NULL;
}

void ranks_finish(struct ranks *ranks)
{
	if (ranks->arena)
		arena_finish(ranks->arena);
	free(ranks->arena);
	*ranks = (struct ranks){ 0 };
}
