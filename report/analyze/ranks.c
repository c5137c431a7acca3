/* SPDX-License-Identifier: MIT
 *
 * Sorts the leaks of all ranks by fingerprint, place and rank, so that equal leaks are
 * neighbours. Memory use is proportional to the number of leaks, not to leaks times ranks.
 */
#include "report/analyze/ranks.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "report/model/model_suballocations.h"
#include "report/util/memory.h"
#include "report/util/number.h"
#include "report/util/report_arena.h"
#include "report/analyze/rank_outliers.h"

/* A leak of one process, or a call site that accumulates. */
struct found {
	uint64_t fingerprint, place;
	size_t rank;
	const struct report_leak *leak;
	uint64_t bytes, blocks;
};

/* Returns a number for the place of STACK in addition to the fingerprint, because two lines of one
 * function are two leaks for a reader. */
static uint64_t place_of(const struct report_stack *stack)
{
	const struct report_frame *frame = report_stack_culprit(stack);

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

static void read_numbers(const struct report *report, struct ranks *ranks)
{
	int *numbers = arena_alloc(ranks->arena, (report->count + 1) * sizeof(*numbers));
	size_t count = 0;

	for (size_t i = 0; i < report->count; i++)
		if (report->processes[i]->ranked)
			numbers[count++] = report->processes[i]->rank;
	ranks->all = count == report->count;
	SORT(numbers, count, compare_ints);
	for (size_t i = 0; i < count; i++)
		if (ranks->count == 0 || numbers[ranks->count - 1] != numbers[i])
			numbers[ranks->count++] = numbers[i];
	ranks->numbers = numbers;
}

size_t ranks_index(const struct ranks *ranks, int number)
{
	const int *at = bsearch(&number, ranks->numbers, ranks->count, sizeof(*ranks->numbers),
				compare_ints);

	return (size_t)(at - ranks->numbers);
}

struct found_list {
	struct found *list;
	size_t count;
};

static void add_found(struct found_list *to, size_t rank, const struct report_leak *leak,
		      uint64_t bytes, uint64_t blocks)
{
	*LIST_ADD(to->list, to->count) = (struct found){ report_site_fingerprint(leak->site),
							 place_of(leak->site->stack), rank, leak,
							 bytes, blocks };
}

/* Adds the leaks of P, or its call sites that accumulate. */
static void find_in(const struct report_process *p, size_t rank, bool accumulating,
		    struct found_list *to)
{
	for (size_t i = 0; !accumulating && i < p->leak_count; i++)
		add_found(to, rank, &p->leaks[i], p->leaks[i].bytes, p->leaks[i].blocks);
	for (size_t i = 0; accumulating && i < p->suballocation_count; i++) {
		const struct report_suballocations *site = &p->suballocations[i];

		if (report_accumulates(site))
			add_found(to, rank, &site->live, site->kept_bytes, site->kept_blocks);
	}
}

/* Returns all leaks of ranked processes, or all call sites that accumulate. The caller frees the
 * list. */
static struct found_list find_all(const struct report *report, const struct ranks *ranks,
				  bool accumulating)
{
	struct found_list ret = { 0 };

	for (size_t i = 0; i < report->count; i++) {
		const struct report_process *p = report->processes[i];

		if (p->ranked)
			find_in(p, ranks_index(ranks, p->rank), accumulating, &ret);
	}
	SORT(ret.list, ret.count, compare_found);
	return ret;
}

/* Makes one rank_leak of the COUNT equal leaks at FOUND. */
static struct rank_leak make_leak(struct ranks *ranks, const struct found *found, size_t count)
{
	struct rank_leak ret = { .leak = found->leak, .same_device = true,
				 .parts = arena_alloc(ranks->arena, count * sizeof(*ret.parts)) };
	struct rank_part *part = NULL;

	for (size_t i = 0; i < count; i++) {
		const struct found *one = &found[i];

		if (!part || part->rank != found[i].rank) {
			part = &ret.parts[ret.count++];
			part->rank = found[i].rank;
		}
		part->bytes = add_bounded(part->bytes, one->bytes);
		part->blocks = add_bounded(part->blocks, one->blocks);
		ret.bytes = add_bounded(ret.bytes, one->bytes);
		ret.blocks = add_bounded(ret.blocks, one->blocks);
		ret.same_device &= one->leak->site->device == ret.leak->site->device;
	}
	for (size_t i = 0; i < count && ret.count > 1; i++)
		ranks->shared[ranks->shared_count++] = found[i].leak;
	return ret;
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

static void count_leaking(struct ranks *ranks)
{
	char *leaks = arena_alloc(ranks->arena, ranks->count);

	for (size_t i = 0; i < ranks->leak_count; i++)
		for (size_t j = 0; j < ranks->leaks[i].count; j++)
			leaks[ranks->leaks[i].parts[j].rank] = 1;
	for (size_t i = 0; i < ranks->count; i++)
		ranks->leaking += leaks[i] != 0;
}

/* Makes the list of rank_leaks from FOUND, largest first. */
static struct rank_leak *put_together(struct ranks *ranks, const struct found_list *found,
				      size_t *ret_count)
{
	size_t count = found->count;
	struct rank_leak *ret = arena_alloc(ranks->arena, count * sizeof(*ret));

	for (size_t at = 0, next; at < count; at = next) {
		next = at + 1;
		while (next < count && same_leak(&found->list[at], &found->list[next]))
			next++;
		ret[(*ret_count)++] = make_leak(ranks, &found->list[at], next - at);
	}
	SORT(ret, *ret_count, compare_leaks);
	return ret;
}

static void find_job(const struct report *report, struct ranks *ranks)
{
	struct found_list leaks = find_all(report, ranks, false);
	struct found_list accumulating = find_all(report, ranks, true);

	ranks->shared = arena_alloc(ranks->arena, (leaks.count + accumulating.count) *
							  sizeof(*ranks->shared));
	ranks->leaks = put_together(ranks, &leaks, &ranks->leak_count);
	ranks->accumulating = put_together(ranks, &accumulating, &ranks->accumulating_count);
	SORT(ranks->shared, ranks->shared_count, compare_pointers);
	count_leaking(ranks);
	ranks_find_odd(report, ranks);
	free(leaks.list);
	free(accumulating.list);
}

struct ranks ranks_find(const struct report *report)
{
	struct ranks ret = { .arena = calloc(1, sizeof(*ret.arena)) };

	read_numbers(report, &ret);
	if (ret.count > 1)
		find_job(report, &ret);
	return ret;
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
