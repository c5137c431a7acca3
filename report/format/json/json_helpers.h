/* SPDX-License-Identifier: MIT
 *
 * Helpers for the JSON formats. If memory runs out, a function returns NULL. An object or array
 * that would contain such a NULL becomes NULL itself, so callers check only the final value.
 */
#ifndef GPULEAK_REPORT_JSON_PARTS_H
#define GPULEAK_REPORT_JSON_PARTS_H

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

/* Set KEY of *OBJECT to VALUE, or append VALUE to *ARRAY, and take ownership of VALUE. If one of
 * the two is NULL, *OBJECT or *ARRAY becomes NULL. */
void json_set(json_t **object, const char *key, json_t *value);
void json_append(json_t **array, json_t *value);

struct report_addresses;

struct json_member {
	const char *key;
	json_t *value;
};

/* JSON_OBJECT({ "pid", json_integer(pid) }, ...) returns an object with these keys, in this order.
 * JSON_ADD() sets them in *OBJECT, like json_set(). Both take ownership of the values. */
#define JSON_OBJECT(...) json_object_of(JSON_MEMBERS(__VA_ARGS__))
#define JSON_ADD(object, ...) json_add_members(object, JSON_MEMBERS(__VA_ARGS__))
#define JSON_MEMBERS(...) ((const struct json_member[]){ __VA_ARGS__, { 0 } })
json_t *json_object_of(const struct json_member *members);
void json_add_members(json_t **object, const struct json_member *members);

/* A value for JSON_OBJECT() and JSON_ADD(). If CONDITION is false, the object does not get the key,
 * and VALUE is not computed. */
#define JSON_IF(condition, value) ((condition) ? (value) : json_left_out())
json_t *json_left_out(void);

/* Returns the list of the values that OF returns for pointers to the COUNT ITEMS. */
#define JSON_LIST(items, count, of) json_list_of(items, count, sizeof(*(items)), of)
typedef json_t *json_of(const void *item);
json_t *json_list_of(const void *items, size_t count, size_t size, json_of *of);

/* Writes ROOT with INDENT spaces per level. Writes characters that must not be printed as escapes
 * such as \u202e: a terminal does not interpret them, and JSON readers restore them. Returns 0 or
 * -EIO. */
int json_dump_shown(const json_t *root, FILE *out, int indent);

/* Writes ROOT and a newline, and takes ownership of ROOT. ROOT may be NULL (memory ran out).
 * Returns 0, -ENOMEM or -EIO. */
int json_write(json_t *root, FILE *out);

json_t *json_number(uint64_t value);
json_t *json_text(const char *value); /* JSON null for NULL; invalid UTF-8 becomes U+FFFD */
json_t *json_address(uint64_t value); /* "0x..." */
json_t *json_addresses(const struct report_addresses *addresses);

/* For JSON_LIST(): TEXT is an item of a list of strings; SAMPLE is a struct report_sample and
 * becomes [ns, bytes]. */
json_t *json_text_at(const void *text);
json_t *json_sample(const void *sample);

#endif
