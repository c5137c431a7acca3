/* SPDX-License-Identifier: MIT
 *
 * Reads the symbols once and sorts them. libdwfl has a lookup, too, but it walks over the whole
 * table for every address, and large libraries have hundreds of thousands of symbols.
 */
#include "report/symbols/elfsymbols.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "report/symbols/code_range.h"
#include "report/util/memory.h"

#define OVERLAPS_MAX 4096 /* symbols at one address; more are ignored */

struct symbol {
	struct code_range code;
	const char *name;
	int rank; /* of several names for the same range, the name with the highest rank is used */
};

struct elfsymbols {
	size_t count;
	struct symbol *items;
};

/* Prefers global names, because documentation uses them, and names without an underscore at the
 * start. */
static int rank_of(const GElf_Sym *symbol, const char *name)
{
	static const int ranks[] = { [STB_LOCAL] = 1, [STB_GLOBAL] = 3, [STB_WEAK] = 2 };
	unsigned int binding = GELF_ST_BIND(symbol->st_info);

	return (binding < sizeof(ranks) / sizeof(ranks[0]) ? ranks[binding] * 2 : 0) +
	       (name[0] != '_');
}

static bool is_function(const GElf_Sym *symbol)
{
	unsigned int type = GELF_ST_TYPE(symbol->st_info);

	return symbol->st_size && symbol->st_shndx != SHN_UNDEF &&
	       (type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE);
}

/* Orders symbols by start, then larger ones first, then by rank, lowest first. The search begins at
 * the end, so it finds the innermost symbol with the highest rank first. */
static int compare_symbols(const void *left, const void *right)
{
	const struct symbol *a = left, *b = right;

	return code_ranges_compare(a, b) ?: a->rank - b->rank ?: strcmp(b->name, a->name);
}

struct elfsymbols *elfsymbols_create_empty(void)
{
	return calloc(1, sizeof(struct elfsymbols));
}

void elfsymbols_add(struct elfsymbols *symbols, uint64_t start, uint64_t bytes, const char *name,
		    int rank)
{
	if (start + bytes <= start)
		return;
	*LIST_ADD(symbols->items, symbols->count) = (struct symbol){
		.code = { start, start + bytes }, .name = name, .rank = rank,
	};
}

void elfsymbols_sort(struct elfsymbols *symbols)
{
	SORT(symbols->items, symbols->count, compare_symbols);
	code_ranges_set_reach(symbols->items, symbols->count, sizeof(symbols->items[0]));
}

struct elfsymbols *elfsymbols_create(Dwfl_Module *module)
{
	struct elfsymbols *symbols = elfsymbols_create_empty();
	int total = dwfl_module_getsymtab(module);

	for (int i = 0; i < total; i++) {
		GElf_Addr start;
		GElf_Sym symbol;
		const char *name = dwfl_module_getsym_info(module, i, &symbol, &start, NULL, NULL,
							   NULL);

		if (name && name[0] && is_function(&symbol))
			elfsymbols_add(symbols, start, symbol.st_size, name,
				       rank_of(&symbol, name));
	}
	elfsymbols_sort(symbols);
	return symbols;
}

void elfsymbols_destroy(struct elfsymbols *symbols)
{
	if (symbols)
		free(symbols->items);
	free(symbols);
}

static size_t count_until(const struct elfsymbols *symbols, GElf_Addr address)
{
	return code_ranges_until(symbols->items, symbols->count, sizeof(symbols->items[0]),
				 address);
}

const char *elfsymbols_find(const struct elfsymbols *symbols, GElf_Addr address)
{
	size_t at = count_until(symbols, address);

	while (at-- > 0 && symbols->items[at].code.reach > address)
		if (symbols->items[at].code.high > address)
			return symbols->items[at].name;
	return NULL;
}

const char *elfsymbols_last(const struct elfsymbols *symbols, GElf_Addr address,
			    const char **ret_earlier)
{
	const struct symbol *best = NULL, *second = NULL;
	size_t at = count_until(symbols, address), looked = 0;

	for (; at-- > 0 && symbols->items[at].code.reach > address && looked < OVERLAPS_MAX;
	     looked++) {
		const struct symbol *symbol = &symbols->items[at];

		if (symbol->code.high <= address)
			continue;
		if (!best || symbol->rank > best->rank) {
			second = best ? best : second;
			best = symbol;
		} else if (!second || symbol->rank > second->rank) {
			second = symbol;
		}
	}
	*ret_earlier = second ? second->name : NULL;
	return best ? best->name : NULL;
}
