/* SPDX-License-Identifier: MIT
 *
 * Reads the peak of each memory, and from the balances of the call sites what they had live then.
 * Reads only what a damaged ledger may have, too: sums that overflow, and numbers that lead
 * nowhere.
 */
#include "report/model/model_holders.h"

#include <stdlib.h>
#include <string.h>

#include "report/model/builder.h"
#include "report/util/number.h"

/* Maximum number of call sites in the list, the same as for an out-of-memory. Smaller ones are
 * added up. */
#define HOLDERS_MAX 1000u

/* What the call sites of one place in the program had live at the peak of a memory. */
struct amount {
	const struct ledger_site *site; /* the first of them in the ledger */
	struct site_key key;
	uint32_t memory;
	bool inside; /* they are suballocations, inside of blocks */
	uint64_t bytes, blocks;
};

struct peaks {
	struct builder *b;
	const struct ledger_peak *records[LEDGER_MEMORIES_MAX];
	uint32_t numbers[LEDGER_MEMORIES_MAX]; /* number of the last peak of each memory */
	size_t count;
	struct amount *amounts;
	size_t amount_count;
};

/* ---- amounts ---- */

/* Adds to *BYTES and *BLOCKS what BALANCE had at the peak with NUMBER. */
static void add_balance(const struct ledger_balance *balance, uint32_t number, uint64_t *bytes,
			uint32_t *blocks)
{
	bool kept = (int32_t)(number - balance->peak) <= 0;

	*bytes += kept ? balance->peak_bytes : balance->bytes;
	*blocks += kept ? balance->peak_blocks : balance->blocks;
}

static void add_amount(struct peaks *peaks, const struct amount *amount)
{
	*LIST_ADD(peaks->amounts, peaks->amount_count) = *amount;
}

static void read_site(struct peaks *peaks, const struct ledger_site *site, bool inside)
{
	const struct ledger_balance *own = ledger_balance_of(peaks->b->view, site);
	const struct ledger_balance *others = ledger_others_balance_of(peaks->b->view, site);
	struct amount amount = { .site = site, .inside = inside };
	uint32_t blocks = 0;

	if (!own || !others || own->memory < 1 || own->memory > peaks->count)
		return;
	amount.memory = own->memory - 1;
	add_balance(own, peaks->numbers[amount.memory], &amount.bytes, &blocks);
	add_balance(others, peaks->numbers[amount.memory], &amount.bytes, &blocks);
	if ((int64_t)amount.bytes <= 0)
		return;
	amount.blocks = (int32_t)blocks > 0 ? blocks : 0;
	amount.key = site_key_of(peaks->b, site);
	add_amount(peaks, &amount);
}

static void read_sites(struct peaks *peaks, enum ledger_chunk_type type)
{
	struct ledger_walk walk = { 0 };
	const struct ledger_site *site;

	while ((site = ledger_next(peaks->b->view, &walk, type, sizeof(*site))))
		read_site(peaks, site, type == LEDGER_CHUNK_SUBALLOCATION_SITES);
}

static int compare_keys(const struct amount *a, const struct amount *b)
{
	return compare_numbers(a->memory, b->memory) ?: site_key_compare(&a->key, &b->key);
}

static int compare_places(const void *left, const void *right)
{
	const struct amount *a = left, *b = right;

	return compare_keys(a, b) ?: compare_numbers((uintptr_t)a->site, (uintptr_t)b->site);
}

static int compare_sizes(const void *left, const void *right)
{
	const struct amount *a = left, *b = right;

	return compare_numbers(a->memory, b->memory) ?: compare_numbers(b->bytes, a->bytes)
	       ?: compare_numbers((uintptr_t)a->site, (uintptr_t)b->site);
}

/* Adds up amounts of one place, because each thread has its own call sites. Then sorts them by
 * memory and size, largest first. */
static void merge_amounts(struct peaks *peaks)
{
	struct amount *list = peaks->amounts;
	size_t kept = 0;

	if (!peaks->amount_count)
		return;
	SORT(list, peaks->amount_count, compare_places);
	for (size_t i = 1; i < peaks->amount_count; i++) {
		if (compare_keys(&list[kept], &list[i]) != 0) {
			list[++kept] = list[i];
			continue;
		}
		list[kept].bytes = add_bounded(list[kept].bytes, list[i].bytes);
		list[kept].blocks = add_bounded(list[kept].blocks, list[i].blocks);
	}
	peaks->amount_count = kept + 1;
	SORT(list, peaks->amount_count, compare_sizes);
}

/* ---- division ---- */

/* Removes BYTES from *FROM, or all that it has. Returns how many are left to remove. */
static uint64_t take_bytes(uint64_t *from, uint64_t bytes)
{
	uint64_t taken = bytes < *from ? bytes : *from;

	*from -= taken;
	return bytes - taken;
}

/* Makes one holder of all blocks in the cache of FIRST, the largest one of them. Returns it. */
static struct report_leak *join_cache(struct builder *b, struct report_holders *held,
				      struct report_leak *first)
{
	struct report_site without_stack = *first->site;
	size_t kept = (size_t)(first - held->list) + 1;

	without_stack.stack = &build_no_stack;
	first->site = &intern_equal_site(b, &without_stack)->site;
	for (size_t i = kept; i < held->count; i++) {
		struct report_leak *other = &held->list[i];

		if (report_is_suballocation(other) || !other->cache ||
		    strcmp(other->cache, first->cache) != 0) {
			held->list[kept++] = *other;
			continue;
		}
		first->bytes = add_bounded(first->bytes, other->bytes);
		first->blocks = add_bounded(first->blocks, other->blocks);
	}
	held->count = kept;
	return first;
}

static void remove_empty(struct report_holders *held)
{
	size_t kept = 0;

	for (size_t i = 0; i < held->count; i++)
		if (held->list[i].bytes)
			held->list[kept++] = held->list[i];
	held->count = kept;
}

void report_divide_holders(struct builder *b, struct report_holders *held, uint64_t inside)
{
	if (!inside)
		return;
	held->divided = true;
	for (size_t i = 0; i < held->count; i++)
		if (report_holder_is_unused(held, &held->list[i]))
			inside = take_bytes(&join_cache(b, held, &held->list[i])->bytes, inside);
	for (size_t i = 0; i < held->count && inside; i++)
		if (!report_is_suballocation(&held->list[i]))
			inside = take_bytes(&held->list[i].bytes, inside);
	take_bytes(&held->other_bytes, inside);
	remove_empty(held);
	report_merge_holders(held);
}

/* ---- peaks ---- */

static uint64_t difference(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

/* Lists the first of the COUNT AMOUNTS, and adds up the others. Stores in SUMS[0] the bytes of
 * blocks, and in SUMS[1] the bytes of suballocations. */
static void list_holders(struct builder *b, const struct amount *amounts, size_t count,
			 struct report_holders *held, uint64_t sums[2])
{
	size_t listed = count < HOLDERS_MAX ? count : HOLDERS_MAX;

	held->list = arena_alloc(b->arena, (listed + 1) * sizeof(*held->list));
	for (size_t i = 0; i < count; i++) {
		sums[amounts[i].inside] = add_bounded(sums[amounts[i].inside], amounts[i].bytes);
		if (i < listed) {
			held->list[held->count++] = build_holder(b, amounts[i].site,
								 amounts[i].bytes,
								 amounts[i].blocks);
			continue;
		}
		held->other_sites++;
		held->other_bytes = add_bounded(held->other_bytes, amounts[i].bytes);
		held->other_blocks = add_bounded(held->other_blocks, amounts[i].blocks);
	}
	report_merge_holders(held);
}

static struct report_peak read_peak(struct peaks *peaks, uint32_t memory,
				    const struct amount *amounts, size_t count)
{
	const struct ledger_peak *record = peaks->records[memory];
	const struct ledger_peak_at *at = &record->at[peaks->numbers[memory] % 2];
	uint64_t sums[2] = { 0, 0 };
	struct report_peak ret = {
		.memory = record->memory <= LEDGER_MEMORY_OPENCL
				  ? (enum ledger_memory)record->memory
				  : LEDGER_MEMORY_NONE,
		.device = record->device,
		.bytes = at->bytes,
		.time_ns = at->time_ns,
		.error_bytes = at->unnoted_bytes,
	};

	list_holders(peaks->b, amounts, count, &ret.held, sums);
	ret.error_bytes = add_bounded(ret.error_bytes, difference(at->bytes, sums[0]));
	ret.error_bytes =
		add_bounded(ret.error_bytes, difference(at->suballocated_bytes, sums[1]));
	report_divide_holders(peaks->b, &ret.held, sums[1]);
	return ret;
}

static int compare_peaks(const void *left, const void *right)
{
	const struct report_peak *a = left, *b = right;

	return compare_numbers(b->bytes, a->bytes) ?: compare_numbers(a->memory, b->memory)
	       ?: compare_ints(a->device, b->device);
}

static void list_peaks(struct peaks *peaks)
{
	struct report_process *process = peaks->b->process;
	size_t first = 0, end;

	process->peaks = arena_alloc(peaks->b->arena, (peaks->count + 1) * sizeof(*process->peaks));
	for (uint32_t i = 0; i < peaks->count; i++, first = end) {
		for (end = first; end < peaks->amount_count && peaks->amounts[end].memory == i;)
			end++;
		if (peaks->numbers[i])
			process->peaks[process->peak_count++] =
				read_peak(peaks, i, peaks->amounts ? &peaks->amounts[first] : NULL,
					  end - first);
	}
	SORT(process->peaks, process->peak_count, compare_peaks);
}

void build_peaks(struct builder *b)
{
	struct peaks peaks = { .b = b };
	struct ledger_walk walk = { 0 };
	const struct ledger_peak *record;

	while (peaks.count < LEDGER_MEMORIES_MAX && (record = ledger_next_peak(b->view, &walk))) {
		peaks.numbers[peaks.count] = record->number;
		peaks.records[peaks.count++] = record;
	}
	read_sites(&peaks, LEDGER_CHUNK_SITES);
	read_sites(&peaks, LEDGER_CHUNK_SUBALLOCATION_SITES);
	merge_amounts(&peaks);
	list_peaks(&peaks);
	free(peaks.amounts);
}
