/* SPDX-License-Identifier: MIT
 *
 * Memory that is given back all at once, and a hash table beside it: what building a
 * report needs thousands of times. Knows nothing of reports.
 */
#ifndef GPULEAK_REPORT_POOL_H
#define GPULEAK_REPORT_POOL_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

struct pool_piece;
struct pool {
	struct pool_piece *last;
	size_t used; /* of the last piece */
};

/* SIZE zeroed bytes, aligned for anything, or NULL. They live as long as the pool. */
void *pool_alloc(struct pool *pool, size_t size);

/* The LENGTH bytes at TEXT with a NUL behind them, or NULL. Ends at the first NUL in them. */
char *pool_text(struct pool *pool, const char *text, size_t length);

/* printf into the pool; NULL if there is no memory. */
char *pool_printf(struct pool *pool, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
char *pool_vprintf(struct pool *pool, const char *format, va_list arguments)
	__attribute__((format(printf, 2, 0)));

/* Gives everything back; the pool is empty and usable again. */
void pool_finish(struct pool *pool);

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

/* The value of HASH that SAME(value, KEY) accepts, or NULL. */
void *table_find(const struct table *table, uint64_t hash,
		 int (*same)(const void *value, const void *key), const void *key);

/* Adds VALUE (not NULL), which is not looked for first. 0 or -ENOMEM. */
int table_add(struct table *table, uint64_t hash, void *value);

void table_finish(struct table *table);

/* Hashes SIZE bytes; chain by giving the last result as SEED. */
uint64_t hash_bytes(const void *bytes, size_t size, uint64_t seed);
uint64_t hash_number(uint64_t number, uint64_t seed);

/* The one copy of TEXT that TABLE has in POOL, made if it is new; or NULL. */
const char *pool_intern(struct pool *pool, struct table *table, const char *text, size_t length);

#endif
