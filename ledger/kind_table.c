/* SPDX-License-Identifier: MIT
 *
 * The table of kinds, made from kinds.def.
 */
#include "ledger/kind_table.h"

#include <string.h>

const struct kind kinds[] = {
#define KIND(name_, words_, memory_, limit_, end_, address_)                                 \
	{ name_, words_, KIND_MEMORY_##memory_, KIND_LIMIT_##limit_, KIND_END_##end_,        \
	  KIND_ADDRESS_##address_ },
#include "ledger/kinds.def"
	{ "" },
};

const struct kind *kind_find(const char *bytes, size_t length)
{
	for (const struct kind *kind = kinds; kind->name[0]; kind++)
		if (strncmp(kind->name, bytes, length) == 0 && !kind->name[length])
			return kind;
	return NULL;
}
