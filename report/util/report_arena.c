/* SPDX-License-Identifier: MIT
 *
 * A bump allocator and an open-addressing hash table.
 */
#include "report/util/report_arena.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/util/abrupt_end.h"
#include "report/util/memory.h"

#define PIECE_BYTES ((size_t)64 << 10)
#define ALIGNMENT 16u

struct arena_piece {
	struct arena_piece *previous;
	size_t size;
	_Alignas(ALIGNMENT) unsigned char bytes[];
};

void *arena_alloc(struct report_arena *arena, size_t size)
{
	struct arena_piece *piece = arena->last;
	void *ret;

	if (size > SIZE_MAX / 2)
		abrupt_end_no_memory();
	size = (size + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
	if (!piece || size > piece->size - arena->used) {
		size_t room = size > PIECE_BYTES ? size : PIECE_BYTES;

		piece = calloc(1, sizeof(*piece) + room);
		piece->size = room;
		piece->previous = arena->last;
		arena->last = piece;
		arena->used = 0;
	}
	ret = piece->bytes + arena->used;
	arena->used += size;
	return ret;
}

#define LIST_MIN 4u

/* The room is LIST_MIN, or the next power of two. */
void *arena_grow(struct report_arena *arena, void *list, size_t count, size_t size)
{
	void *ret;

	if (count && (count < LIST_MIN || (count & (count - 1))))
		return list;
	ret = arena_alloc(arena, (count ? 2 * count : LIST_MIN) * size);
	if (count)
		memcpy(ret, list, count * size);
	return ret;
}

char *arena_text(struct report_arena *arena, const char *text, size_t length)
{
	size_t end = strnlen(text, length);
	char *ret = arena_alloc(arena, end + 1);

	memcpy(ret, text, end);
	return ret;
}

char *arena_vprintf(struct report_arena *arena, const char *format, va_list arguments)
{
	char *text = text_vformat(format, arguments), *ret = arena_text(arena, text, strlen(text));

	free(text);
	return ret;
}

char *arena_printf(struct report_arena *arena, const char *format, ...)
{
	va_list arguments;
	char *ret;

	va_start(arguments, format);
	ret = arena_vprintf(arena, format, arguments);
	va_end(arguments);
	return ret;
}

void arena_finish(struct report_arena *arena)
{
	while (arena->last) {
		struct arena_piece *previous = arena->last->previous;

		free(arena->last);
		arena->last = previous;
	}
	arena->used = 0;
}

void *table_find(const struct table *table, uint64_t hash,
		 bool (*same)(const void *value, const void *key), const void *key)
{
	if (table->size == 0)
		return NULL;
	for (size_t i = hash & (table->size - 1); table->slots[i].value;
	     i = (i + 1) & (table->size - 1))
		if (table->slots[i].hash == hash && same(table->slots[i].value, key))
			return table->slots[i].value;
	return NULL;
}

static void place(struct table *table, uint64_t hash, void *value)
{
	size_t i = hash & (table->size - 1);

	while (table->slots[i].value)
		i = (i + 1) & (table->size - 1);
	table->slots[i] = (struct table_slot){ hash, value };
}

void table_add(struct report_arena *arena, struct table *table, uint64_t hash, void *value)
{
	if (table->count >= table->size / 2) {
		struct table grown = { .size = table->size ? table->size * 2 : 64,
				       .count = table->count };

		grown.slots = arena_alloc(arena, grown.size * sizeof(*grown.slots));
		for (size_t i = 0; i < table->size; i++)
			if (table->slots[i].value)
				place(&grown, table->slots[i].hash, table->slots[i].value);
		*table = grown;
	}
	place(table, hash, value);
	table->count++;
}

struct bytes {
	const void *at;
	size_t size;
};

static bool begins_with(const void *value, const void *key)
{
	const struct bytes *bytes = key;

	return memcmp(value, bytes->at, bytes->size) == 0;
}

void *table_intern(struct report_arena *arena, struct table *table, const void *key, size_t size,
		   size_t room)
{
	uint64_t hash = hash_bytes(key, size, 0);
	void *ret = table_find(table, hash, begins_with, &(struct bytes){ key, size });

	if (ret)
		return ret;
	ret = memcpy(arena_alloc(arena, room), key, size);
	table_add(arena, table, hash, ret);
	return ret;
}

/* The finalizer of MurmurHash3: every bit of the input affects every bit of the result. */
uint64_t hash_number(uint64_t number, uint64_t seed)
{
	number += seed + 0x9e3779b97f4a7c15u;
	number = (number ^ (number >> 33)) * 0xff51afd7ed558ccdu;
	number = (number ^ (number >> 33)) * 0xc4ceb9fe1a85ec53u;
	return number ^ (number >> 33);
}

uint64_t hash_bytes(const void *bytes, size_t size, uint64_t seed)
{
	const unsigned char *at = bytes;
	uint64_t word;

	seed = hash_number(size, seed);
	for (; size >= sizeof(word); size -= sizeof(word), at += sizeof(word)) {
		memcpy(&word, at, sizeof(word));
		seed = hash_number(word, seed);
	}
	word = 0;
	if (size) {
		memcpy(&word, at, size);
		seed = hash_number(word, seed);
	}
	return seed;
}

struct ref_node *table_find_ref(const struct table *table, uint32_t ref)
{
	return table_find(table, hash_bytes(&ref, sizeof(ref), 0), begins_with,
			  &(struct bytes){ &ref, sizeof(ref) });
}

void table_add_ref(struct report_arena *arena, struct table *table, uint32_t ref, const void *value)
{
	struct ref_node *node = table_intern(arena, table, &ref, sizeof(ref), sizeof(*node));

	node->value = value;
}

static bool same_text(const void *value, const void *key)
{
	return strlen(value) == ((const struct bytes *)key)->size && begins_with(value, key);
}

const char *arena_intern(struct report_arena *arena, struct table *table, const char *text,
			 size_t length)
{
	struct bytes key = { text, strnlen(text, length) };
	uint64_t hash = hash_bytes(text, key.size, 0);
	char *found = table_find(table, hash, same_text, &key);

	if (found)
		return found;
	found = arena_text(arena, text, key.size);
	table_add(arena, table, hash, found);
	return found;
}
