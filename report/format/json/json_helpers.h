/* SPDX-License-Identifier: MIT
 *
 * Helpers of the JSON formats. A failed value is NULL and makes every value that contains it
 * NULL, so only the end checks.
 */
#ifndef GPULEAK_REPORT_JSON_PARTS_H
#define GPULEAK_REPORT_JSON_PARTS_H

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

struct report_sample;
struct report_stack;

/* Sets KEY to VALUE, which it takes over. Without either, *OBJECT becomes NULL. */
void json_set(json_t **object, const char *key, json_t *value);
void json_append(json_t **array, json_t *value);

/* Writes ROOT with INDENT blanks a level. Characters that may not be shown are spelled out as
 * \u202e, so that a terminal does not obey them and readers get them back. 0 or -EIO. */
int json_dump_shown(const json_t *root, FILE *out, int indent);

/* Writes ROOT, which it takes over and which may be NULL, and a newline. 0, -ENOMEM or -EIO. */
int json_write(json_t *root, FILE *out);

json_t *json_number(uint64_t value);
json_t *json_text(const char *value); /* null for NULL; bytes that are no UTF-8 are repaired */
json_t *json_address(uint64_t value); /* "0x..." */
json_t *json_samples(const struct report_sample *samples, size_t count); /* [[ns, bytes] ...] */
json_t *json_stack(const struct report_stack *stack);

#endif
