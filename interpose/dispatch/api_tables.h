/* SPDX-License-Identifier: MIT
 *
 * Makes the tables of an API's functions without a row from two files of names. The API's file that
 * defines its struct api_ops includes this header once. Before, it defines two macros:
 *   API_IGNORED_ROWS  the file with the API's IGNORED() rows, for example "interpose/cuda/..."
 *   API_OTHER_ROWS    the file with its NO_MEMORY() rows, sorted by strcmp()
 */
#pragma once

#include "interpose/dispatch/api.h"

#define API_COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static const struct api_ignored api_ignored_rows[] = {
#define IGNORED(symbol, class, reason) { #symbol, reason, CLASS_##class },
#include API_IGNORED_ROWS
#undef IGNORED
};

static const char api_other_names[][API_NAME_BYTES] = {
#define NO_MEMORY(symbol) #symbol,
#include API_OTHER_ROWS
#undef NO_MEMORY
};

#define IGNORED(symbol, class, reason)                                                      \
	_Static_assert(sizeof(#symbol) <= API_NAME_BYTES, "a name fits in API_NAME_BYTES"); \
	_Static_assert(sizeof(reason) <= API_REASON_BYTES, "a reason fits in API_REASON_BYTES");
#include API_IGNORED_ROWS
#undef IGNORED
#define NO_MEMORY(symbol) \
	_Static_assert(sizeof(#symbol) <= API_NAME_BYTES, "a name fits in API_NAME_BYTES");
#include API_OTHER_ROWS
#undef NO_MEMORY

/* Designated initializers for the fields of struct api_ops that name these tables. */
#define API_TABLES                                                                          \
	.ignored = api_ignored_rows, .ignored_count = API_COUNT_OF(api_ignored_rows),       \
	.other = api_other_names, .other_count = API_COUNT_OF(api_other_names)
