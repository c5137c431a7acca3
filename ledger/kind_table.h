/* SPDX-License-Identifier: MIT
 *
 * kinds.def as a table. Any thread may search it at any time.
 */
#ifndef GPULEAK_KIND_TABLE_H
#define GPULEAK_KIND_TABLE_H

#include <stddef.h>

enum kind_memory { KIND_MEMORY_OTHER, KIND_MEMORY_DEVICE, KIND_MEMORY_MANAGED };
enum kind_limit { KIND_LIMIT_COUNTS, KIND_LIMIT_NO, KIND_LIMIT_OPENS };
enum kind_end { KIND_END_ANY, KIND_END_OWN };

struct kind {
	char name[24], words[40]; /* in place: no pointer for the loader to relocate */
	enum kind_memory memory;
	enum kind_limit limit;
	enum kind_end end;
};

/* All of them; the last has no name. */
extern const struct kind kinds[] __attribute__((visibility("hidden")));

/* The kind whose name are these LENGTH bytes, or NULL. */
const struct kind *kind_find(const char *bytes, size_t length);

#endif
