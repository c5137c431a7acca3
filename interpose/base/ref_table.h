/* SPDX-License-Identifier: MIT
 *
 * A table from 64-bit keys to refs of the ledger: one array, no pointers, so that a look-up in a
 * large table touches one or two cache lines and growing it reads memory in order. Entries are
 * never removed. Owns its array; takes no lock.
 */
#ifndef GPULEAK_REF_TABLE_H
#define GPULEAK_REF_TABLE_H

#include <stdint.h>

#include "interpose/base/arena.h"

struct ref_slot {
	uint64_t key;
	uint32_t ref; /* 0: the slot is free */
};

/* All zero: empty. */
struct ref_table {
	struct ref_slot *slots;
	uint32_t size; /* a power of two, or 0 */
	uint32_t used;
};

/* Locking: for both functions the caller must hold a lock for TABLE. */
/* Returns KEY's ref, 0 if KEY is not in TABLE. */
uint32_t ref_table_find(const struct ref_table *table, uint64_t key);
/* Stores REF, which is not 0, for KEY. If memory is short, a new KEY is not added. */
void ref_table_set(struct arena *arena, struct ref_table *table, uint64_t key, uint32_t ref);

#endif
