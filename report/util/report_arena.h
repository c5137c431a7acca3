/* SPDX-License-Identifier: MIT
 *
 * An arena, whose memory is freed all at once, and a hash table. Must not know anything about
 * reports.
 */
#ifndef GPULEAK_REPORT_ARENA_H
#define GPULEAK_REPORT_ARENA_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena_piece;
struct report_arena {
	struct arena_piece *last;
	size_t used; /* of the last piece */
};

/* Returns SIZE zeroed bytes, aligned for any type, or NULL. They live as long as the arena. */
void *arena_alloc(struct report_arena *arena, size_t size);

/* Copies the LENGTH bytes at TEXT, up to the first NUL in them, and appends a NUL. Returns the copy
 * or NULL. */
char *arena_text(struct report_arena *arena, const char *text, size_t length);

/* printf into the arena; NULL if there is no memory. */
char *arena_printf(struct report_arena *arena, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
char *arena_vprintf(struct report_arena *arena, const char *format, va_list arguments)
	__attribute__((format(printf, 2, 0)));

/* Frees all memory. The arena is then empty and usable again. */
void arena_finish(struct report_arena *arena);

/* Values by hash. The table owns neither keys nor values. Starts as { 0 }. */
struct table_slot {
	uint64_t hash;
	void *value; /* NULL = free */
};
struct table {
	struct table_slot *slots;
	size_t size; /* a power of two, or 0 */
	size_t count;
};

/* Returns the value of HASH for which SAME(value, KEY) is true, or NULL. */
void *table_find(const struct table *table, uint64_t hash,
		 bool (*same)(const void *value, const void *key), const void *key);

/* Adds VALUE (not NULL) without checking for an equal one. 0 or -ENOMEM. */
int table_add(struct table *table, uint64_t hash, void *value);

void table_finish(struct table *table);

/* Hashes SIZE bytes; chain by giving the last result as SEED. */
uint64_t hash_bytes(const void *bytes, size_t size, uint64_t seed);
uint64_t hash_number(uint64_t number, uint64_t seed);

/* The one copy of TEXT that TABLE has in POOL, made if it is new; or NULL. */
const char *arena_intern(struct report_arena *arena, struct table *table, const char *text,
			 size_t length);

#endif
