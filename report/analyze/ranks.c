/* SPDX-License-Identifier: MIT
 *
 * Sorts the leaks of all ranks by fingerprint, place and rank, so that equal leaks are
 * neighbours. Memory use is proportional to the number of leaks, not to leaks times ranks.
 */
#include "report/analyze/ranks.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "report/util/memory.h"
#include "report/util/number.h"
#include "report/util/report_arena.h"
#include "report/analyze/leak_totals.h"

/* Returns a number for the place of STACK in addition to the fingerprint, because two lines of one
 * function are two leaks for a reader. */
static uint64_t place_of(const struct report_stack *stack)
{
	const struct report_frame *frame = report_stack_culprit(stack);

	return !frame ? 0 : frame->line ? frame->line : frame->offset;
}

static int compare_leaks(const struct leak_total *a, const struct leak_total *b)
{
	return compare_numbers(a->fingerprint, b->fingerprint)
	       ?: compare_numbers(place_of(a->largest->site->stack),
				  place_of(b->largest->site->stack));
}

static int compare_rank_numbers(const void *left, const void *right)
{
	return compare_ints(*(const int *)left, *(const int *)right);
}

static int compare_found(const void *left, const void *right)
{
	const struct leak_total *a = left, *b = right;

	return compare_leaks(a, b) ?: compare_ints(a->process->rank, b->process->rank);
}

static void read_numbers(const struct report *report, struct ranks *ranks)
{
	int *numbers = arena_alloc(ranks->arena, (report->count + 1) * sizeof(*numbers));
	size_t count = 0;

	for (size_t i = 0; i < report->count; i++)
		if (report->processes[i]->ranked)
			numbers[count++] = report->processes[i]->rank;
	ranks->all = count == report->count;
	SORT(numbers, count, compare_rank_numbers);
	for (size_t i = 0; i < count; i++)
		if (ranks->count == 0 || numbers[ranks->count - 1] != numbers[i])
			numbers[ranks->count++] = numbers[i];
	ranks->numbers = numbers;
}

size_t ranks_index(const struct ranks *ranks, int number)
{
	const int *at = bsearch(&number, ranks->numbers, ranks->count, sizeof(*ranks->numbers),
				compare_rank_numbers);

	return (size_t)(at - ranks->numbers);
}

static uint64_t second_fingerprint(const struct report_site *site, const void *data)
{
	(void)data;
	return report_site_fingerprint2(site);
}

/* Returns the leaks of ranked processes in the lists OF, see leak_totals.h. Equal leaks are
 * neighbours. */
static struct leak_totals find_all(const struct report *report, unsigned int of)
{
	struct leak_totals ret = leak_totals_list_by(report, of, second_fingerprint, NULL);
	size_t ranked = 0;

	for (size_t i = 0; i < ret.count; i++)
		if (ret.entries[i].process->ranked)
			ret.entries[ranked++] = ret.entries[i];
	ret.count = ranked;
	SORT(ret.entries, ret.count, compare_found);
	return ret;
}

/* Makes one rank_leak of the COUNT equal leaks at FOUND. */
static struct rank_leak make_leak(struct ranks *ranks, const struct leak_total *found,
				  size_t count)
{
	struct rank_leak ret = { .leak = found->largest, .same_device = true,
				 .parts = arena_alloc(ranks->arena, count * sizeof(*ret.parts)) };
	struct rank_part *part = NULL;

	EACH_ITEM(found, count, one) {
		size_t rank = ranks_index(ranks, one->process->rank);

		if (!part || part->rank != rank) {
			part = &ret.parts[ret.count++];
			part->rank = rank;
		}
		part->bytes = add_bounded(part->bytes, one->bytes);
		part->blocks = add_bounded(part->blocks, one->blocks);
		ret.bytes = add_bounded(ret.bytes, one->bytes);
		ret.blocks = add_bounded(ret.blocks, one->blocks);
		ret.same_device &= one->largest->site->device == ret.leak->site->device;
	}
	for (size_t i = 0; i < count && ret.count > 1; i++)
		table_add(ranks->arena, &ranks->shared, hash_number((uintptr_t)found[i].largest, 0),
			  (void *)found[i].largest);
	return ret;
}

static int compare_sizes(const void *left, const void *right)
{
	const struct rank_leak *a = left, *b = right;

	return compare_numbers(b->bytes, a->bytes) ?: compare_numbers(b->blocks, a->blocks);
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

/* Returns the rank_leaks of the lists OF, see leak_totals.h, largest first. */
static struct rank_leak *find_leaks(const struct report *report, struct ranks *ranks,
				    unsigned int of, size_t *ret_count)
{
	struct leak_totals found = find_all(report, of);
	struct rank_leak *ret = arena_alloc(ranks->arena, found.count * sizeof(*ret));

	for (size_t at = 0, next; at < found.count; at = next) {
		next = at + 1;
		while (next < found.count &&
		       compare_leaks(&found.entries[at], &found.entries[next]) == 0)
			next++;
		ret[(*ret_count)++] = make_leak(ranks, &found.entries[at], next - at);
	}
	leak_totals_finish(&found);
	SORT(ret, *ret_count, compare_sizes);
	return ret;
}

static void find_job(const struct report *report, struct ranks *ranks)
{
	ranks->leaks = find_leaks(report, ranks, TOTALS_OF_LEAKS, &ranks->leak_count);
	ranks->accumulating = find_leaks(report, ranks, TOTALS_OF_ACCUMULATIONS,
					 &ranks->accumulating_count);
	count_leaking(ranks);
	ranks_find_odd(report, ranks);
}

struct ranks ranks_find(const struct report *report)
{
	struct ranks ret = { .arena = calloc(1, sizeof(*ret.arena)) };

	read_numbers(report, &ret);
	if (ret.count > 1)
		find_job(report, &ret);
	return ret;
}

static bool same_pointer(const void *value, const void *key)
{
	return value == key;
}

bool ranks_shares(const struct ranks *ranks, const struct report_leak *leak)
{
	return table_find(&ranks->shared, hash_number((uintptr_t)leak, 0), same_pointer, leak);
}

void ranks_finish(struct ranks *ranks)
{
	if (ranks->arena)
		arena_finish(ranks->arena);
	free(ranks->arena);
	*ranks = (struct ranks){ 0 };
}
