/* SPDX-License-Identifier: MIT
 *
 * Finds names in the tables of what is not intercepted. Owns nothing but the search; the
 * names are in fixed arrays, so that a process without a GPU pays no relocation for them.
 */
#include "interpose/dispatch/classify.h"

#include <stddef.h>
#include <string.h>

#include "interpose/dispatch/hooks.h"

#define NAME_MAX_BYTES 56

static const char cuda_other[][NAME_MAX_BYTES] = {
#define NO_MEMORY(symbol) #symbol,
#include "interpose/cuda/cuda_other.def"
};
static const char opencl_other[][NAME_MAX_BYTES] = {
#include "interpose/opencl/opencl_other.def"
#undef NO_MEMORY
};

struct ignored {
	char name[NAME_MAX_BYTES];
	char reason[96];
	enum class class;
};
static const struct ignored cuda_ignored[] = {
#define IGNORED(symbol, class, reason) { #symbol, reason, CLASS_##class },
#include "interpose/cuda/cuda_ignored.def"
};
static const struct ignored opencl_ignored[] = {
#include "interpose/opencl/opencl_ignored.def"
#undef IGNORED
};

static const char unseen[][NAME_MAX_BYTES] = {
#define UNSEEN(symbol) #symbol,
#include "interpose/cuda/cuda_unseen.def"
#undef UNSEEN
};

#define NO_MEMORY(symbol) \
	_Static_assert(sizeof(#symbol) <= NAME_MAX_BYTES, "longer than its place");
#define IGNORED(symbol, class, reason)                                           \
	_Static_assert(sizeof(#symbol) <= NAME_MAX_BYTES && sizeof(reason) <= 96, \
		       "longer than its place");
#include "interpose/cuda/cuda_ignored.def"
#include "interpose/cuda/cuda_other.def"
#include "interpose/opencl/opencl_ignored.def"
#include "interpose/opencl/opencl_other.def"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static bool in_order(const char (*names)[NAME_MAX_BYTES], size_t count, const char *name)
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

/* Most differ in the eight bytes behind the prefix that all have. */
static const struct ignored *among(const struct ignored *rows, size_t count, const char *name)
{
	char padded[NAME_MAX_BYTES] = { 0 };
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

/* Functions that our wrappers ask: they only tell. */
static bool is_used(const char *name)
{
	for (int i = 0; i < USED_COUNT; i++)
		if (strcmp(used[i].name, name) == 0)
			return true;
	return false;
}

enum class class_of(const char *name, const char **ret_reason)
{
	const struct ignored *row;

	*ret_reason = NULL;
	if (name[1] == 'u' ? in_order(cuda_other, COUNT(cuda_other), name)
			   : in_order(opencl_other, COUNT(opencl_other), name))
		return CLASS_NO_MEMORY;
	row = name[1] == 'u' ? among(cuda_ignored, COUNT(cuda_ignored), name)
			     : among(opencl_ignored, COUNT(opencl_ignored), name);
	if (!row)
		return is_used(name) ? CLASS_NO_MEMORY : CLASS_UNKNOWN;
	*ret_reason = row->reason;
	return row->class;
}

bool class_submits(const char *name)
{
	const char *reason;

	for (size_t i = 0; i < COUNT(unseen); i++)
		if (strcmp(unseen[i], name) == 0)
			return true;
	return name[1] == 'u' && class_of(name, &reason) == CLASS_UNKNOWN;
}
