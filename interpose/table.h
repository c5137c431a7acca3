/* SPDX-License-Identifier: MIT
 *
 * uthash, set up for use inside a foreign process: keys are one 64-bit word, memory comes
 * from our arena (a `struct arena *arena` must be in scope), running out of it is no
 * reason to exit. Include this instead of uthash.h.
 */
#ifndef GPULEAK_TABLE_H
#define GPULEAK_TABLE_H

#include <stdint.h>

#include "arena.h"

#define HASH_NONFATAL_OOM 1
#define uthash_malloc(bytes) arena_take(arena, bytes)
#define uthash_free(memory, bytes) arena_give(arena, memory, bytes)
#define uthash_bzero(memory, bytes) __builtin_memset(memory, 0, bytes)
#define HASH_FUNCTION(key, length, hash) \
	((hash) = (unsigned int)(table_mix(*(const uint64_t *)(key)) >> 32))
#define HASH_KEYCMP(a, b, length) (*(const uint64_t *)(a) != *(const uint64_t *)(b))
#include <uthash.h>

/* Device addresses differ in bits 9 to 40, handles in bits 4 to 30: spread them. The
 * table takes bits 32 and up, shard numbers come from the top. */
static inline uint64_t table_mix(uint64_t key)
{
	return key * 0x9e3779b97f4a7c15u;
}

#define TABLE_FIND(head, key, ret) HASH_FIND(hh, head, key, sizeof(uint64_t), ret)
#define TABLE_ADD(head, field, item) HASH_ADD(hh, head, field, sizeof(uint64_t), item)

#endif
