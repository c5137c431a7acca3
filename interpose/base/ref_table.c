/* SPDX-License-Identifier: MIT
 *
 * A table from 64-bit keys to refs of the ledger: open addressing, at most three quarters full.
 */
#include "interpose/base/ref_table.h"

#define REF_TABLE_SMALLEST 64u

/* An entry moves to one of two places in an array that is twice as large, so both arrays are
 * accessed nearly in order. */
static void grow(struct arena *arena, struct ref_table *table)
{
	struct ref_table larger = {
		.size = table->size ? 2 * table->size : REF_TABLE_SMALLEST,
		.used = table->used,
	};

	larger.slots = arena_take(arena, larger.size * sizeof(*larger.slots));
	if (!larger.slots)
		return;
	for (uint32_t i = 0; i < table->size; i++)
		if (table->slots[i].ref)
			*ref_table_slot(&larger, table->slots[i].key) = table->slots[i];
	if (table->slots)
		arena_give(arena, table->slots, table->size * sizeof(*table->slots));
	*table = larger;
}

struct ref_slot *ref_table_set(struct arena *arena, struct ref_table *table, uint64_t key,
			       uint32_t ref)
{
	struct ref_slot *slot;

	if (ref_table_is_full(table))
		grow(arena, table);
	if (table->used + 1 >= table->size) /* one slot stays free: it ends each search */
		return NULL;
	slot = ref_table_slot(table, key);
	table->used += slot->ref == 0;
	*slot = (struct ref_slot){ .key = key, .ref = ref };
	return slot;
}

void ref_table_finish(struct arena *arena, struct ref_table *table)
{
	if (table->slots)
		arena_give(arena, table->slots, table->size * sizeof(*table->slots));
	*table = (struct ref_table){ 0 };
}
