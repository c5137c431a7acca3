/* SPDX-License-Identifier: MIT
 *
 * Creates numbers, texts and addresses with jansson, which keeps the order of keys.
 */
#include "report/describe/json_helpers.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "report/model/model.h"
#include "report/util/escape.h"
#include "ledger/utf8.h"

json_t *json_left_out(void)
{
	static json_t left_out = { .type = JSON_NULL, .refcount = (size_t)-1 };

	return &left_out;
}

void json_set(json_t *object, const char *key, json_t *value)
{
	if (value != json_left_out())
		json_object_set_new_nocheck(object, key, value);
}

void json_add_members(json_t *object, const struct json_member *members)
{
	for (const struct json_member *member = members; member->key; member++)
		json_set(object, member->key, member->value);
}

json_t *json_object_of(const struct json_member *members)
{
	json_t *ret = json_object();

	json_add_members(ret, members);
	return ret;
}

json_t *json_array_of(json_t *const *values, size_t count)
{
	json_t *ret = json_array();

	for (size_t i = 0; i < count; i++)
		json_array_append_new(ret, values[i]);
	return ret;
}

json_t *json_list_of(const void *items, size_t count, size_t size, json_of *of)
{
	json_t *ret = json_array();

	for (size_t i = 0; i < count; i++)
		json_array_append_new(ret, of((const char *)items + i * size));
	return ret;
}

json_t *json_list_for(const struct subject_view *view, const void *items, size_t count,
		      size_t size, json_of_view *of)
{
	json_t *ret = json_array();

	for (size_t i = 0; i < count; i++)
		json_array_append_new(ret, of((const char *)items + i * size, view));
	return ret;
}

/* Returns how many bytes at TEXT can be copied unchanged. All newlines in TEXT are jansson's
 * indentation, because jansson escapes newlines of strings. */
static size_t copied(const char *text, size_t length)
{
	size_t at = 0, step = 1;

	while (at < length && step) {
		step = text[at] == '\n' || (text[at] >= ' ' && text[at] < 0x7f)
			       ? 1
			       : utf8_shown_within(text + at, length - at);
		at += step;
	}
	return at;
}

/* The command has one thread, so the streams are not locked. */
static int write_shown(const char *text, size_t length, void *out)
{
	size_t done = copied(text, length);

	fwrite_unlocked(text, 1, done, out);
	while (done < length) {
		size_t whole = utf8_length_within(text + done, length - done), rest;

		fprintf(out, "\\u%04x", whole ? utf8_code_point(text + done, whole) : 0xfffd);
		done += whole ? whole : 1;
		rest = copied(text + done, length - done);
		fwrite_unlocked(text + done, 1, rest, out);
		done += rest;
	}
	return ferror_unlocked((FILE *)out) ? -1 : 0;
}

int json_dump_shown(const json_t *root, FILE *out, int indent)
{
	return json_dump_callback(root, write_shown, out, JSON_INDENT((size_t)indent)) == 0
		       ? 0
		       : -EIO;
}

int json_write(json_t *root, FILE *out)
{
	int r = json_dump_shown(root, out, 2);

	if (fputc('\n', out) == EOF)
		r = -EIO;
	json_decref(root);
	return r;
}

json_t *json_number(uint64_t value)
{
	return json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value);
}

json_t *json_text(const char *value)
{
	json_t *ret = value ? json_string(value) : json_null();
	char *valid;

	if (ret) /* valid UTF-8, the usual case */
		return ret;
	valid = utf8_repair(value);
	ret = json_string(valid);
	free(valid);
	return ret;
}

json_t *json_text_freed(char *value)
{
	json_t *ret = json_text(value);

	free(value);
	return ret;
}

json_t *json_address(uint64_t value)
{
	char hex[24];

	snprintf(hex, sizeof(hex), "0x%" PRIx64, value);
	return json_string(hex);
}

static json_t *address_at(const void *value)
{
	return json_address(*(const uint64_t *)value);
}

json_t *json_addresses(const struct report_addresses *addresses)
{
	return JSON_LIST(addresses->list, addresses->count, address_at);
}

json_t *json_text_at(const void *text)
{
	return json_text(*(const char *const *)text);
}
