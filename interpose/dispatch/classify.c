/* SPDX-License-Identifier: MIT
 *
 * Searches each API's tables of functions that are not intercepted.
 */
#include "interpose/dispatch/api.h"

#include <string.h>

static bool in_order(const char (*names)[API_NAME_BYTES], size_t count, const char *name)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = strcmp(name, names[middle]);

		if (order == 0)
			return true;
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return false;
}

/* Returns the row of NAME, or NULL. Compares eight bytes first: most names differ in the bytes
 * after the common prefix. */
static const struct api_ignored *among(const struct api_ignored *rows, size_t count,
				       const char *name)
{
	char padded[API_NAME_BYTES] = { 0 };
	size_t length = strlen(name);
	uint64_t wanted, word;

	if (length >= sizeof(padded))
		return NULL;
	memcpy(padded, name, length);
	memcpy(&wanted, padded + 5, sizeof(wanted));
	for (size_t i = 0; i < count; i++) {
		memcpy(&word, rows[i].name + 5, sizeof(word));
		if (word == wanted && memcmp(rows[i].name, padded, sizeof(padded)) == 0)
			return &rows[i];
	}
	return NULL;
}

/* Returns true if gpuleak's own wrappers call NAME. Such functions only query the driver. */
static bool is_used(const char *name)
{
	for (int i = 0; i < USED_COUNT; i++)
		if (strcmp(used[i].name, name) == 0)
			return true;
	return false;
}

enum class class_of(const char *name, const char **ret_reason)
{
	enum api api = api_of(name);
	const struct api_ignored *row;

	*ret_reason = NULL;
	if (api == API_COUNT)
		return CLASS_UNKNOWN;
	if (in_order(apis[api]->other, apis[api]->other_count, name))
		return CLASS_NO_MEMORY;
	row = among(apis[api]->ignored, apis[api]->ignored_count, name);
	if (!row)
		return is_used(name) ? CLASS_NO_MEMORY : CLASS_UNKNOWN;
	*ret_reason = row->reason;
	return row->class;
}

bool class_submits(const char *name)
{
	enum api api = api_of(name);
	const char *reason;

	if (api == API_COUNT)
		return false;
	for (size_t i = 0; i < apis[api]->unseen_count; i++)
		if (strcmp(apis[api]->unseen[i], name) == 0)
			return true;
	return apis[api]->unknown_submits && class_of(name, &reason) == CLASS_UNKNOWN;
}
