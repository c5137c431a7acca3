/* SPDX-License-Identifier: MIT
 *
 * An arena, which frees all its memory at once, and a hash table. Neither fails if memory is short:
 * see report/util/abrupt_end.h. Must not depend on reports. Not thread-safe.
 */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct report_arena {
	struct arena_piece *last;
	size_t used; /* bytes in use in the last piece */
};

/* Returns SIZE zeroed bytes, aligned for any type. They are valid until arena_finish(). */
void *arena_alloc(struct report_arena *arena, size_t size);

/* Makes room for one more item in LIST, which has COUNT items and only grows by this macro, adds 1
 * to COUNT, and returns a pointer to the item, which is zeroed. Items may move. */
#define ARENA_ADD(arena, list, count) \
	((list) = arena_grow(arena, list, count, sizeof(*(list))), &(list)[(count)++])
void *arena_grow(struct report_arena *arena, void *list, size_t count, size_t size);

/* Copies the LENGTH bytes at TEXT up to the first NUL, and appends a NUL. Returns the copy. */
char *arena_text(struct report_arena *arena, const char *text, size_t length);

/* Returns formatted text, allocated from ARENA. */
char *arena_printf(struct report_arena *arena, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
char *arena_vprintf(struct report_arena *arena, const char *format, va_list arguments)
	__attribute__((format(printf, 2, 0)));

/* Frees all memory. The arena is then empty and can be used again. */
void arena_finish(struct report_arena *arena);

/* A table from hashes to values. The caller owns the values. Starts as { 0 }, and ends with the
 * arena that is passed to table_add(), always the same one. */
struct table_slot {
	uint64_t hash;
	void *value; /* NULL: the slot is unused */
};
struct table {
	struct table_slot *slots;
	size_t size; /* a power of two, or 0 */
	size_t count;
};

/* Returns the value with this HASH for which SAME(value, KEY) is true, or NULL. */
void *table_find(const struct table *table, uint64_t hash,
		 bool (*same)(const void *value, const void *key), const void *key);

/* Returns the value that begins with the SIZE bytes at KEY, which have no padding. If there is
 * none, adds one of ROOM bytes, which are zero after the key. All values of TABLE begin with keys
 * of this size. */
void *table_intern(struct report_arena *arena, struct table *table, const void *key, size_t size,
		   size_t room);

/* Adds VALUE (not NULL) and does not check for an equal value. */
void table_add(struct report_arena *arena, struct table *table, uint64_t hash, void *value);

/* Hash SIZE bytes or a number. To hash several values, pass the previous result as SEED. */
uint64_t hash_bytes(const void *bytes, size_t size, uint64_t seed);
uint64_t hash_number(uint64_t number, uint64_t seed);

/* A number and the value that a table has for it. */
struct ref_node {
	uint32_t ref;
	const void *value; /* may be NULL */
};

/* Returns the node of REF in TABLE, or NULL. */
struct ref_node *table_find_ref(const struct table *table, uint32_t ref);

/* Adds a node, which is allocated from ARENA. */
void table_add_ref(struct report_arena *arena, struct table *table, uint32_t ref,
		   const void *value);

/* Returns the only copy of TEXT in TABLE. Allocates it from ARENA if it does not exist. */
const char *arena_intern(struct report_arena *arena, struct table *table, const char *text,
			 size_t length);
