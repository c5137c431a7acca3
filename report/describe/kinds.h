/* SPDX-License-Identifier: MIT
 *
 * Words for the kinds of memory and of objects. kinds.def lists all kinds.
 */
#pragma once

#include <stdint.h>

#include "report/util/lines.h"

/* Returns the words for KIND ("pinned host memory" for "pinned"), or KIND itself if it is
 * unknown. */
const char *kind_words(const char *kind);

/* Checks that NAME is a kind of memory. No block has another name, so a rule with another name
 * would have no effect. Returns 0, or -EINVAL with a message that lists the kinds. */
int kind_check(const struct lines *file, struct line_part name);
/* Does the same for a kind of object that is not memory. NAME is a name that object_name()
 * returns. */
int object_check(const struct lines *file, struct line_part name);

/* Returns the name that KIND, a kind of object, has in budgets: "stream" for "object/stream". */
const char *object_name(const char *kind);

#define FORMAT_OBJECTS_MAX 128
/* Writes "3 streams" to RET and returns it. OBJECTS() is the same as text that is valid until the
 * end of the block. */
const char *format_objects(uint64_t count, const char *kind, char ret[FORMAT_OBJECTS_MAX]);
#define OBJECTS(count, kind) format_objects(count, kind, (char[FORMAT_OBJECTS_MAX]){ 0 })
