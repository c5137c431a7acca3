/* SPDX-License-Identifier: MIT
 *
 * The words of ledger/kinds.def. Kinds with a slash are objects that are not memory.
 */
#include "report/describe/kinds.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "ledger/kind_table.h"
#include "report/util/lines.h"

const char *kind_words(const char *kind)
{
	const struct kind *known = kind_find(kind, strlen(kind));

	return known ? known->words : kind;
}

/* Returns true if KIND is memory that budgets count. Suballocations count as the blocks that they
 * lie in. */
static bool is_memory(const struct kind *kind)
{
	return strchr(kind->name, '/') == NULL && kind->memory != KIND_MEMORY_INSIDE;
}

int kind_check(const struct lines *file, struct line_part name)
{
	char known[512], shown[LINES_QUOTE];
	size_t used = 0;

	for (const struct kind *kind = kinds; kind->name[0]; kind++) {
		if (!is_memory(kind))
			continue;
		if (word_is(name, kind->name))
			return 0;
		if (used < sizeof(known))
			used += (size_t)snprintf(known + used, sizeof(known) - used, "%s%s",
						 used ? ", " : "", kind->name);
	}
	return lines_fail(file, -EINVAL, "'%s' is not a kind of memory; known are %s",
			  lines_quote(name, shown), known);
}
