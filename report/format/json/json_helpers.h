/* SPDX-License-Identifier: MIT
 *
 * Helpers for the JSON formats. If memory runs out, a function returns NULL. A value that would
 * contain NULL becomes NULL itself, so callers check only the final value.
 */
#ifndef GPULEAK_REPORT_JSON_PARTS_H
#define GPULEAK_REPORT_JSON_PARTS_H

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

struct report_sample;
struct report_stack;

/* Set KEY of *OBJECT to VALUE, or append VALUE to *ARRAY, and take ownership of VALUE. If either is
 * NULL, *OBJECT or *ARRAY becomes NULL. */
void json_set(json_t **object, const char *key, json_t *value);
void json_append(json_t **array, json_t *value);

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
json_t *json_samples(const struct report_sample *samples, size_t count); /* [[ns, bytes] ...] */
json_t *json_stack(const struct report_stack *stack);

#endif
