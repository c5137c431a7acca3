/* SPDX-License-Identifier: MIT
 *
 * uthash, set up for use inside a foreign process: a key is one 64-bit word, memory comes from one
 * of gpuleak's arenas, and a lack of memory does not end the process. Include this instead of
 * uthash.h.
 */
#pragma once

#include <stdint.h>

#include "interpose/base/arena.h"

#define HASH_NONFATAL_OOM 1
#define uthash_malloc(bytes) arena_take(table_arena, bytes)
#define uthash_free(memory, bytes) arena_give(table_arena, memory, bytes)
#define uthash_bzero(memory, bytes) __builtin_memset(memory, 0, bytes)
#define HASH_FUNCTION(key, length, hash) \
	((hash) = table_hash(*(const uint64_t *)(key)))
#define HASH_KEYCMP(a, b, length) (*(const uint64_t *)(a) != *(const uint64_t *)(b))
#include <uthash.h>

/* Spreads keys by one multiplication: enough for shard numbers, which come from the top, and for
 * caches. The middle bits of the product depend only on the lower bits of the key, which is not
 * enough for a hash table. */
#define TABLE_MIX(key) ((uint64_t)(key) * 0x9e3779b97f4a7c15u)

/* The hash of a table. Keys are handles, addresses and refs at regular distances, and words with a
 * ref in the upper half. So a second multiplication makes each bit of the hash depend on all bits
 * of the key. Otherwise chains grow, and uthash permanently stops expanding the table. */
static inline uint32_t table_hash(uint64_t key)
{
	uint64_t mix = TABLE_MIX(key);

	return (uint32_t)(((mix ^ mix >> 32) * 0x9e3779b97f4a7c15u) >> 32);
}

#define TABLE_FIND(head, key, ret) HASH_FIND(hh, head, key, sizeof(uint64_t), ret)
/* Adds ITEM, whose key is its member FIELD. The table takes memory from the arena FROM. Returns
 * false, with ITEM not added, if memory is short. */
#define TABLE_ADD(from, head, field, item)                                                 \
	({                                                                                 \
		struct arena *const table_arena = (from);                                  \
		HASH_ADD(hh, head, field, sizeof(uint64_t), item);                         \
		(item)->hh.tbl != NULL;                                                    \
	})
#define TABLE_REMOVE(from, head, item)                                                     \
	do {                                                                               \
		struct arena *const table_arena __attribute__((unused)) = (from);          \
		HASH_DEL(head, item);                                                      \
	} while (0)
