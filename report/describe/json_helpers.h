/* SPDX-License-Identifier: MIT
 *
 * Helpers for the JSON formats.
 */
#pragma once

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

#include "report/util/text_buffer.h"

struct report_addresses;
struct subject_view;

/* Sets KEY of OBJECT to VALUE and takes ownership of VALUE. */
void json_set(json_t *object, const char *key, json_t *value);

struct json_member {
	const char *key;
	json_t *value;
};

/* JSON_OBJECT({ "pid", json_integer(pid) }, ...) returns an object with these keys, in this order.
 * JSON_ADD() sets them in OBJECT. Both take ownership of the values. */
#define JSON_OBJECT(...) json_object_of(JSON_MEMBERS(__VA_ARGS__))
#define JSON_ADD(object, ...) json_add_members(object, JSON_MEMBERS(__VA_ARGS__))
#define JSON_MEMBERS(...) ((const struct json_member[]){ __VA_ARGS__, { 0 } })
json_t *json_object_of(const struct json_member *members);
void json_add_members(json_t *object, const struct json_member *members);

/* A value for the functions above. If CONDITION is false, the object does not get the key, and
 * VALUE is not computed. */
#define JSON_IF(condition, value) ((condition) ? (value) : json_left_out())
json_t *json_left_out(void);

/* Returns the array of the values, and takes ownership of them. */
#define JSON_ARRAY(...) json_array_of((json_t *const[]){ __VA_ARGS__ }, \
				      sizeof((json_t *const[]){ __VA_ARGS__ }) / sizeof(json_t *))
json_t *json_array_of(json_t *const *values, size_t count);

/* Returns the list of the values that OF returns for pointers to the COUNT ITEMS. JSON_LIST_FOR()
 * also passes VIEW to OF. */
#define JSON_LIST(items, count, of) json_list_of(items, count, sizeof(*(items)), of)
/* A value for the functions above. The object does not get the key if COUNT is 0. */
#define JSON_LIST_IF_ANY(items, count, of) JSON_IF(count, JSON_LIST(items, count, of))
typedef json_t *json_of(const void *item);
json_t *json_list_of(const void *items, size_t count, size_t size, json_of *of);
#define JSON_LIST_FOR(view, items, count, of) \
	json_list_for(view, items, count, sizeof(*(items)), of)
typedef json_t *json_of_view(const void *item, const struct subject_view *view);
json_t *json_list_for(const struct subject_view *view, const void *items, size_t count,
		      size_t size, json_of_view *of);

/* Writes ROOT with INDENT spaces per level. Writes characters that must not be printed as escapes
 * such as \u202e: a terminal does not interpret them, and JSON readers restore them. Returns 0 or
 * -EIO. */
int json_dump_shown(const json_t *root, FILE *out, int indent);

/* Writes ROOT and a newline, and takes ownership of ROOT. Returns 0 or -EIO. */
int json_write(json_t *root, FILE *out);

json_t *json_number(uint64_t value);
json_t *json_text(const char *value); /* JSON null for NULL; invalid UTF-8 becomes U+FFFD */
json_t *json_address(uint64_t value); /* "0x..." */
/* Returns the text that the statements print to the FILE TO. */
#define JSON_PRINTED(to, ...) json_text_freed(PRINTED(to, __VA_ARGS__))
json_t *json_text_freed(char *value); /* json_text(), and frees VALUE */
json_t *json_addresses(const struct report_addresses *addresses);

/* For JSON_LIST(): TEXT is an item of a list of strings. */
json_t *json_text_at(const void *text);
