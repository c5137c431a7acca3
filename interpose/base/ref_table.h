/* SPDX-License-Identifier: MIT
 *
 * A table from 64-bit keys to refs of the ledger: one array, no pointers, so that a look-up in a
 * large table touches one or two cache lines and growing it reads memory in order. A single entry
 * is never removed. Owns its array; takes no lock.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "interpose/base/arena.h"
#include "interpose/base/hash.h"

struct ref_slot {
	uint64_t key;
	uint32_t ref; /* 0: the slot is free */
	uint32_t mark; /* for the table's owner; 0 in a new entry */
};

/* All zero: empty. */
struct ref_table {
	struct ref_slot *slots;
	uint32_t size; /* a power of two, or 0 */
	uint32_t used;
};

/* Locking: for all of these functions the caller must hold a lock for TABLE. */

/* Returns the slot that has KEY, or the free one where it belongs. TABLE has an array. */
static inline struct ref_slot *ref_table_slot(const struct ref_table *table, uint64_t key)
{
	for (uint32_t at = table_hash(key);; at++) {
		struct ref_slot *slot = &table->slots[at & (table->size - 1)];

		if (!slot->ref || slot->key == key)
			return slot;
	}
}

/* Returns the slot that has KEY, or NULL if KEY is not in TABLE. */
static inline struct ref_slot *ref_table_slot_of(const struct ref_table *table, uint64_t key)
{
	struct ref_slot *slot = table->size ? ref_table_slot(table, key) : NULL;

	return slot && slot->ref ? slot : NULL;
}

/* Returns KEY's ref, 0 if KEY is not in TABLE. */
static inline uint32_t ref_table_find(const struct ref_table *table, uint64_t key)
{
	const struct ref_slot *slot = ref_table_slot_of(table, key);

	return slot ? slot->ref : 0;
}
/* Returns true if the next new key would make TABLE grow. */
static inline bool ref_table_is_full(const struct ref_table *table)
{
	return table->used >= table->size / 4 * 3;
}
/* Stores REF, which is not 0, for KEY. Returns KEY's slot, which is valid until the next call.
 * Returns NULL if KEY could not be added, because memory ran out. */
struct ref_slot *ref_table_set(struct arena *arena, struct ref_table *table, uint64_t key,
			       uint32_t ref);
/* Gives TABLE's memory back and makes it empty. */
void ref_table_finish(struct arena *arena, struct ref_table *table);
