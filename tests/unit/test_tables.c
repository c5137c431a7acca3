/* SPDX-License-Identifier: MIT
 *
 * Tables stay fast with keys as they come: uthash and the table of blocks keep expanding, and no
 * search passes many entries. With a weak hash uthash stops to expand a table, and its chains grow
 * without limit.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "interpose/base/ref_table.h"
#include "interpose/base/hash.h"
#include "interpose/block/block_table.h"

#define KEYS 100000u

static struct arena arena_of_test;

struct item {
	uint64_t key;
	UT_hash_handle hh;
};

/* KEYS keys from FIRST on, at a distance of STEP, as one sort of key has them. */
static const struct keys {
	const char *sort;
	uint64_t first, step;
} all[] = {
	{ "addresses of small blocks", 0x7f0000000000, 512 },
	{ "addresses of large blocks", 0x7f0000000000, 2 << 20 },
	{ "handles", 0x55550000a2a0, 48 },
	{ "refs", 0x1000, 8 },
	{ "rows by stacks of 4 frames", 0x1000ull << 32 | 5 << 16 | 1, 8ull << 32 },
	{ "rows by stacks of 20 frames", 0x1000ull << 32 | 5 << 16 | 1, 24ull << 32 },
	{ "rows by stacks of 60 frames", 0x1000ull << 32 | 5 << 16 | 1, 64ull << 32 },
};

static unsigned int longest_chain(const UT_hash_table *table)
{
	unsigned int longest = 0;

	for (unsigned int i = 0; i < table->num_buckets; i++)
		if (table->buckets[i].count > longest)
			longest = table->buckets[i].count;
	return longest;
}

static void uthash_expands(void **state)
{
	struct arena *arena = &arena_of_test;

	(void)state;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		struct item *items = arena_take(arena, KEYS * sizeof(*items)), *head = NULL;

		for (unsigned int k = 0; k < KEYS; k++) {
			items[k].key = all[i].first + k * all[i].step;
			assert_true(TABLE_ADD(arena, head, key, &items[k]));
		}
		print_message("# %s: %u buckets, longest chain %u\n", all[i].sort,
			      head->hh.tbl->num_buckets, longest_chain(head->hh.tbl));
		assert_int_equal(head->hh.tbl->noexpand, 0);
		assert_uint_in_range(longest_chain(head->hh.tbl), 1, 32);
		for (unsigned int k = 0; k < KEYS; k++)
			TABLE_REMOVE(arena, head, &items[k]);
	}
}

static unsigned int longest_entry_chain(const struct shard *shard)
{
	unsigned int longest = 0, length;

	for (uint32_t i = 0; i < shard->buckets; i++) {
		length = 0;
		for (const struct entry *entry = shard->bucket[i]; entry; entry = entry->next)
			length++;
		longest = length > longest ? length : longest;
	}
	return longest;
}

/* The chains of a shard's entries stay short while the shard grows, a loop reads each entry, and
 * entries that were removed are not found. */
static void entries_are_found(void **state)
{
	struct arena *arena = &arena_of_test;

	(void)state;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		struct shard shard = { 0 };
		uint64_t key = all[i].first;
		uint32_t count = 0;

		for (uint32_t k = 0; k < KEYS; k++, key += all[i].step) {
			assert_null(entry_find(&shard, key));
			assert_non_null(entry_new(arena, &shard, key));
		}
		print_message("# entries, %s: %u buckets, longest %u\n", all[i].sort, shard.buckets,
			      longest_entry_chain(&shard));
		assert_uint_in_range(longest_entry_chain(&shard), 1, 16);
		FOR_ENTRIES(&shard, entry)
			count++;
		assert_int_equal(count, KEYS);
		key = all[i].first;
		for (uint32_t k = 0; k < KEYS; k++, key += all[i].step) {
			assert_true(entry_find(&shard, key)->key == key);
			entry_forget(arena, &shard, entry_find(&shard, key));
			assert_null(entry_find(&shard, key));
		}
		assert_null(entry_after(&shard, NULL));
	}
}

/* Returns how many slots in a row are taken at most: no search passes more. */
static unsigned int longest_run(const struct ref_table *table)
{
	unsigned int run = 0, longest = 0;

	for (uint32_t i = 0; i < 2 * table->size; i++) {
		run = table->slots[i % table->size].ref ? run + 1 : 0;
		if (run > longest)
			longest = run;
	}
	return longest;
}

static void refs_are_found(void **state)
{
	struct arena *arena = &arena_of_test;

	(void)state;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		struct ref_table table = { 0 };
		uint64_t key = all[i].first;

		for (uint32_t k = 0; k < KEYS; k++, key += all[i].step) {
			assert_int_equal(ref_table_find(&table, key), 0);
			ref_table_set(arena, &table, key, k + 1);
		}
		key = all[i].first;
		for (uint32_t k = 0; k < KEYS; k++, key += all[i].step)
			assert_int_equal(ref_table_find(&table, key), k + 1);
		ref_table_set(arena, &table, all[i].first, 7);
		assert_int_equal(ref_table_find(&table, all[i].first), 7);
		assert_int_equal(table.used, KEYS);
		print_message("# %s: longest run %u\n", all[i].sort, longest_run(&table));
		assert_uint_in_range(longest_run(&table), 1, 200);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(uthash_expands),
		cmocka_unit_test(refs_are_found),
		cmocka_unit_test(entries_are_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
