/* SPDX-License-Identifier: MIT
 *
 * The words of ledger/kinds.def. Kinds with a slash are objects that are not memory.
 */
#include "report/describe/kinds.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "ledger/format.h"
#include "ledger/kind_table.h"
#include "report/model/site.h"
#include "report/util/lines.h"
#include "report/util/number.h"

const char *kind_words(const char *kind)
{
	const struct kind *known = kind_find(kind, strlen(kind));

	return known ? known->words : kind;
}

/* Returns the name of KIND in a budget, or NULL if it has none. Kinds of suballocations have none,
 * because these count as the blocks that they lie in. */
static const char *name_of(const struct kind *kind, bool objects)
{
	if (kind_is_object(kind->name))
		return objects ? object_name(kind->name) : NULL;
	return objects || kind->memory == KIND_MEMORY_INSIDE ? NULL : kind->name;
}

static int check(const struct lines *file, struct line_part word, bool objects, const char *what)
{
	char known[512];
	size_t used = 0;

	for (const struct kind *kind = kinds; kind->name[0]; kind++) {
		const char *name = name_of(kind, objects);

		if (!name)
			continue;
		if (word_is(word, name))
			return 0;
		if (used < sizeof(known))
			used += (size_t)snprintf(known + used, sizeof(known) - used, "%s%s",
						 used ? ", " : "", name);
	}
	return lines_fail(file, -EINVAL, "'%s' is not a kind of %s; known are %s",
			  QUOTED(word), what, known);
}

int kind_check(const struct lines *file, struct line_part name)
{
	return check(file, name, false, "memory");
}

int object_check(const struct lines *file, struct line_part name)
{
	return check(file, name, true, "object");
}

const char *object_name(const char *kind)
{
	return kind_is_object(kind) ? kind + sizeof(LEDGER_KIND_OBJECT) - 1 : kind;
}

const char *format_objects(uint64_t count, const char *kind, char ret[FORMAT_OBJECTS_MAX])
{
	const char *words = kind_words(kind);
	size_t length = strlen(words);
	bool y = count != 1 && length && words[length - 1] == 'y';

	snprintf(ret, FORMAT_OBJECTS_MAX, "%s %.*s%s", NUMBER(count),
		 (int)(y ? length - 1 : length), words, y ? "ies" : plural(count));
	return ret;
}
