/* SPDX-License-Identifier: MIT
 *
 * Reads the symbols once, and sorts them if many addresses are looked up. libdwfl has a lookup,
 * too, but it walks over the whole table for every address, and large libraries have hundreds of
 * thousands of symbols.
 */
#include "report/symbols/elfsymbols.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "report/symbols/code_range.h"
#include "report/util/memory.h"

#define OVERLAPS_MAX 4096 /* symbols at one address; more are ignored */
#define SEARCHES_MAX 64   /* of an unsorted table: sorting takes longer than these */

struct symbol {
	struct code_range code;
	const char *name;
	int rank; /* of several names for the same range, the name with the highest rank is used */
};

struct elfsymbols {
	size_t count;
	struct symbol *items;
	bool is_sorted;
	unsigned int searches; /* before the items were sorted */
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
	symbols->is_sorted = true;
	SORT(symbols->items, symbols->count, compare_symbols);
	code_ranges_set_reach(symbols->items, symbols->count, sizeof(symbols->items[0]));
}

/* Words of the header of Go's table (pclntab, since Go 1.18): a number, offsets in the table. */
enum { GO_COUNT = 1, GO_NAMES = 4, GO_FUNCTIONS = 8, GO_HEADER };
#define NAME_IN(bytes) ((bytes) < 4096 ? (bytes) : 4096) /* where a name must end */

static uint32_t number_at(const Elf_Data *table, uint64_t at)
{
	uint32_t ret = 0;

	if (at < table->d_size && table->d_size - at >= sizeof(ret))
		memcpy(&ret, (const char *)table->d_buf + at, sizeof(ret));
	return ret;
}

/* Adds the functions in TABLE, which may be Go's. Addresses count from the first function; KNOWN is
 * that of crosscall2(), which is one of them. */
static void add_go_table(struct elfsymbols *symbols, const Elf_Data *table, uint64_t known)
{
	uint64_t header[GO_HEADER], text = 0, first = symbols->count;

	if ((number_at(table, 0) | 1) != 0xfffffff1 || table->d_size < sizeof(header))
		return;
	memcpy(header, table->d_buf, sizeof(header));
	for (uint64_t i = 0; i < header[GO_COUNT] && i < table->d_size / 8; i++) {
		uint64_t entry = header[GO_FUNCTIONS] + 8 * i, start = number_at(table, entry);
		uint64_t about = header[GO_FUNCTIONS] + number_at(table, entry + 4);
		uint64_t at = header[GO_NAMES] + number_at(table, about + 4);
		const char *name = table->d_buf;

		if (at >= table->d_size || !memchr(name + at, 0, NAME_IN(table->d_size - at)))
			continue;
		if (strcmp(name + at, "crosscall2") == 0)
			text = known - start;
		elfsymbols_add(symbols, start, number_at(table, entry + 8) - start, name + at, 0);
	}
	for (size_t i = first; i < symbols->count; i++) {
		symbols->items[i].code.low += text;
		symbols->items[i].code.high += text;
	}
	symbols->count = text ? symbols->count : first;
}

Elf_Scn *elf_section(Elf *file, const char *name)
{
	Elf_Scn *ret = NULL;
	GElf_Shdr header;
	size_t names;

	if (elf_getshdrstrndx(file, &names) < 0)
		return NULL;
	while ((ret = elf_nextscn(file, ret)) && gelf_getshdr(ret, &header))
		if (strcmp(elf_strptr(file, names, header.sh_name) ?: "", name) == 0)
			return ret;
	return NULL;
}

/* Adds Go's functions, for which a program that was built with -ldflags=-s has no symbols. */
static void add_go_functions(struct elfsymbols *symbols, Elf *file)
{
	Elf_Scn *section = elf_section(file, ".symtab") ? NULL : elf_section(file, ".gopclntab");
	const Elf_Data *table = section ? elf_rawdata(section, NULL) : NULL;
	size_t i = 0;

	while (i < symbols->count && strcmp(symbols->items[i].name, "crosscall2") != 0)
		i++;
	if (table && table->d_buf && i < symbols->count)
		add_go_table(symbols, table, symbols->items[i].code.low);
}

struct elfsymbols *elfsymbols_create(Dwfl_Module *module)
{
	struct elfsymbols *symbols = elfsymbols_create_empty();
	int total = dwfl_module_getsymtab(module);
	GElf_Addr bias;

	for (int i = 0; i < total; i++) {
		GElf_Addr start;
		GElf_Sym symbol;
		const char *name = dwfl_module_getsym_info(module, i, &symbol, &start, NULL, NULL,
							   NULL);

		if (name && name[0] && is_function(&symbol))
			elfsymbols_add(symbols, start, symbol.st_size, name,
				       rank_of(&symbol, name));
	}
	add_go_functions(symbols, dwfl_module_getelf(module, &bias));
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

const char *elfsymbols_find(struct elfsymbols *symbols, GElf_Addr address)
{
	const struct symbol *found = NULL;
	size_t at;

	if (!symbols->is_sorted && symbols->searches++ == SEARCHES_MAX)
		elfsymbols_sort(symbols);
	at = symbols->is_sorted ? count_until(symbols, address) : symbols->count;
	while (at-- > 0 && !(symbols->is_sorted &&
			     (found || symbols->items[at].code.reach <= address))) {
		const struct symbol *symbol = &symbols->items[at];

		if (symbol->code.low <= address && address < symbol->code.high &&
		    (!found || compare_symbols(symbol, found) > 0))
			found = symbol;
	}
	return found ? found->name : NULL;
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
