/* SPDX-License-Identifier: MIT
 *
 * The table of kinds, made from kinds.def, which documents the columns. It is constant: any
 * thread may search it at any time.
 */
#pragma once

#include <stddef.h>

enum kind_memory {
	KIND_MEMORY_OTHER, KIND_MEMORY_DEVICE, KIND_MEMORY_MANAGED, KIND_MEMORY_INSIDE
};
enum kind_limit { KIND_LIMIT_COUNTS, KIND_LIMIT_NO, KIND_LIMIT_OPENS };
enum kind_end { KIND_END_ANY, KIND_END_OWN };
enum kind_address { KIND_ADDRESS_OTHER, KIND_ADDRESS_LINEAR };

struct kind {
	char name[24], words[40]; /* arrays, so that the loader has no pointers to relocate */
	enum kind_memory memory;
	enum kind_limit limit;
	enum kind_end end;
	enum kind_address address;
};

/* All kinds; the last element has an empty name. */
extern const struct kind kinds[] __attribute__((visibility("hidden")));

/* Returns the kind whose name is the LENGTH bytes at BYTES, or NULL. */
const struct kind *kind_find(const char *bytes, size_t length);
