/* SPDX-License-Identifier: MIT
 *
 * An index of DWARF that grows on demand: units by address, and the functions of each unit that
 * is used. libdw's own lookup walks over a whole unit for every address. Also, libdw 0.188 finds
 * no unit without .debug_aranges, which clang never writes.
 */
#include "report/symbols/debuginfo.h"

#include <dwarf.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/symbols/code_range.h"
#include "report/util/memory.h"
#include "report/util/report_arena.h"

#define CGO_LINES 3             /* that cgo writes in front of a file of Go */
#define DEPTH_MAX 64            /* of nested scopes; protects against damaged files */
#define DIES_MAX (1u << 24)     /* in one unit; more means that a damaged file has a loop */

struct range {
	struct code_range code;
	Dwarf_Die die;
};

struct ranges {
	struct range *items;
	size_t count;
};

struct unit {
	Dwarf_Off offset;
	Dwarf_Die die;   /* the unit with the line table */
	/* the unit with the functions; differs from `die` if they are in a .dwo file */
	Dwarf_Die split;
	const char *directory;
	bool is_ada;
	bool is_old_cgo; /* see is_old_cgo() */
	struct ranges functions;
};

struct debuginfo {
	Dwarf *dwarf;
	struct report_arena arena;
	struct table units;      /* struct unit, keyed by offset */
	struct ranges unit_ranges;
	bool units_listed;
};

static void add_range(struct ranges *ranges, Dwarf_Addr low, Dwarf_Addr high, const Dwarf_Die *die)
{
	if (low >= high)
		return;
	*LIST_ADD(ranges->items, ranges->count) =
		(struct range){ .code = { low, high }, .die = *die };
}

static void add_die_ranges(struct ranges *ranges, Dwarf_Die *die)
{
	Dwarf_Addr base, low, high;
	ptrdiff_t at = 0;

	while ((at = dwarf_ranges(die, at, &base, &low, &high)) > 0)
		add_range(ranges, low, high, die);
}

static void sort_ranges(struct ranges *ranges)
{
	SORT(ranges->items, ranges->count, code_ranges_compare);
	code_ranges_set_reach(ranges->items, ranges->count, sizeof(*ranges->items));
}

/* Returns the innermost range that contains PC, or NULL. */
static struct range *find_range(const struct ranges *ranges, Dwarf_Addr pc)
{
	size_t at = code_ranges_until(ranges->items, ranges->count, sizeof(*ranges->items), pc);

	while (at-- > 0 && ranges->items[at].code.reach > pc)
		if (ranges->items[at].code.high > pc)
			return &ranges->items[at];
	return NULL;
}

/* Returns true if a DIE of that tag can contain functions with code. */
static bool holds_functions(int tag)
{
	switch (tag) {
	case DW_TAG_compile_unit:
	case DW_TAG_partial_unit:
	case DW_TAG_namespace:
	case DW_TAG_module:
	case DW_TAG_class_type:
	case DW_TAG_structure_type:
	case DW_TAG_union_type:
	case DW_TAG_subprogram:
	case DW_TAG_lexical_block:
		return true;
	}
	return false;
}

static void list_functions(struct ranges *ranges, Dwarf_Die *parent, unsigned int depth,
			   unsigned int *dies_left)
{
	Dwarf_Die die;

	if (depth > DEPTH_MAX || dwarf_child(parent, &die) != 0)
		return;
	do {
		int tag = dwarf_tag(&die);

		if (*dies_left == 0)
			return;
		--*dies_left;
		if (tag == DW_TAG_subprogram)
			add_die_ranges(ranges, &die);
		if (holds_functions(tag))
			list_functions(ranges, &die, depth + 1, dies_left);
	} while (dwarf_siblingof(&die, &die) == 0);
}

static const char *text_of(Dwarf_Die *die, unsigned int attribute)
{
	Dwarf_Attribute buffer;

	return dwarf_formstring(dwarf_attr_integrate(die, attribute, &buffer));
}

/* dwarf.h of elfutils 0.188 has no names for Ada 2005 (0x2e) and 2012 (0x2f). */
static bool is_ada(Dwarf_Die *unit)
{
	int language = dwarf_srclang(unit);

	return language == DW_LANG_Ada83 || language == DW_LANG_Ada95 || language == 0x2e ||
	       language == 0x2f;
}

static bool is_old_go(Dwarf_Die *unit)
{
	const char *producer = text_of(unit, DW_AT_producer);
	unsigned int minor;

	return producer && sscanf(producer, "Go cmd/compile go1.%u", &minor) == 1 && minor < 21;
}

/* Returns true for a package of Go that calls C, if the compiler is older than Go 1.21. For inlined
 * calls in a file that cgo rewrote, it stores the line of the rewritten file. */
static bool is_old_cgo(Dwarf_Die *unit)
{
	Dwarf_Files *files;
	size_t i = 0;

	if (!is_old_go(unit) || dwarf_getsrcfiles(unit, &files, &i) != 0)
		return false;
	while (i > 0 && !strstr(dwarf_filesrc(files, i - 1, NULL, NULL) ?: "", "_cgo_gotypes.go"))
		i--;
	return i > 0;
}

/* Returns the unit of DIE. Lists its functions on the first call. */
static struct unit *open_unit(struct debuginfo *index, const Dwarf_Die *die)
{
	Dwarf_Off offset = dwarf_dieoffset((Dwarf_Die *)die);
	struct unit *unit = table_intern(&index->arena, &index->units, &offset, sizeof(offset),
					 sizeof(*unit));
	unsigned int dies_left = DIES_MAX;
	uint8_t type;

	if (unit->die.cu)
		return unit;
	unit->die = *die;
	unit->split = *die;
	unit->directory = text_of(&unit->die, DW_AT_comp_dir);
	if (dwarf_cu_info(unit->die.cu, NULL, &type, NULL, &unit->split, NULL, NULL, NULL) != 0 ||
	    type != DW_UT_skeleton || !unit->split.cu)
		unit->split = *die;
	unit->is_ada = is_ada(&unit->split);
	unit->is_old_cgo = is_old_cgo(&unit->split);
	list_functions(&unit->functions, &unit->split, 0, &dies_left);
	sort_ranges(&unit->functions);
	return unit;
}

static void list_units(struct debuginfo *index)
{
	Dwarf_CU *cu = NULL;
	Dwarf_Die die;
	uint8_t type;

	index->units_listed = true;
	while (dwarf_get_units(index->dwarf, cu, &cu, NULL, &type, &die, NULL) == 0)
		if (type != DW_UT_type && type != DW_UT_partial)
			add_die_ranges(&index->unit_ranges, &die);
	sort_ranges(&index->unit_ranges);
}

static struct unit *find_unit(struct debuginfo *index, Dwarf_Addr pc)
{
	struct range *range;
	Dwarf_Die die;

	if (dwarf_addrdie(index->dwarf, pc, &die))
		return open_unit(index, &die);
	if (!index->units_listed)
		list_units(index);
	range = find_range(&index->unit_ranges, pc);
	return range ? open_unit(index, &range->die) : NULL;
}

/* Finds the outermost inlined call that contains PC in the subtree of *DIE, but not inside another
 * function. */
static bool find_inlined(Dwarf_Die *die, Dwarf_Addr pc, unsigned int depth, Dwarf_Die *ret)
{
	Dwarf_Die child;

	if (depth > DEPTH_MAX || dwarf_child(die, &child) != 0)
		return false;
	do {
		int tag = dwarf_tag(&child);

		if (tag != DW_TAG_inlined_subroutine && tag != DW_TAG_lexical_block &&
		    tag != DW_TAG_try_block && tag != DW_TAG_catch_block)
			continue;
		if (dwarf_haspc(&child, pc) <= 0)
			continue;
		if (tag == DW_TAG_inlined_subroutine) {
			*ret = child;
			return true;
		}
		if (find_inlined(&child, pc, depth + 1, ret))
			return true;
	} while (dwarf_siblingof(&child, &child) == 0);
	return false;
}

static const char *function_name(Dwarf_Die *die)
{
	const char *name = text_of(die, DW_AT_linkage_name);

	if (!name)
		name = text_of(die, DW_AT_MIPS_linkage_name);
	return name ? name : dwarf_diename(die);
}

static void line_of(struct unit *unit, Dwarf_Addr pc, struct debuginfo_frame *ret)
{
	Dwarf_Line *line = dwarf_getsrc_die(&unit->die, pc);

	if (!line)
		return;
	ret->file = dwarf_linesrc(line, NULL, NULL);
	dwarf_lineno(line, &ret->line);
}

/* Returns the line of the inlined call DIE, which has LINE in a unit of is_old_cgo(): that of the
 * code before the inlined code, if it is LINE in one of the two files, else 0. */
static int cgo_call_line(struct unit *unit, Dwarf_Die *die, int line)
{
	struct debuginfo_frame before = { 0 };
	Dwarf_Addr base, low, high;

	if (dwarf_ranges(die, 0, &base, &low, &high) > 0)
		line_of(unit, low - 1, &before);
	return before.line == line || before.line == line - CGO_LINES ? before.line : 0;
}

/* Finds the file and line of the inlined call DIE in its caller. */
static void call_site(struct unit *unit, Dwarf_Die *die, struct debuginfo_frame *ret)
{
	Dwarf_Attribute buffer;
	Dwarf_Word file, line;
	Dwarf_Files *files;
	size_t count;

	if (dwarf_formudata(dwarf_attr(die, DW_AT_call_line, &buffer), &line) == 0)
		ret->line = unit->is_old_cgo ? cgo_call_line(unit, die, (int)line)
					     : (int)line;
	if (dwarf_formudata(dwarf_attr(die, DW_AT_call_file, &buffer), &file) == 0 &&
	    dwarf_getsrcfiles(&unit->split, &files, &count) == 0 && file < count)
		ret->file = dwarf_filesrc(files, file, NULL, NULL);
}

size_t debuginfo_frames(struct debuginfo *index, Dwarf_Addr pc,
			  struct debuginfo_frame ret[DEBUGINFO_FRAMES_MAX])
{
	struct unit *unit = find_unit(index, pc);
	Dwarf_Die chain[DEBUGINFO_FRAMES_MAX]; /* the outermost first */
	struct debuginfo_frame at = { 0 };
	struct range *function;
	size_t depth = 0;

	if (!unit)
		return 0;
	at.directory = unit->directory;
	line_of(unit, pc, &at);
	function = find_range(&unit->functions, pc);
	if (!function) {
		ret[0] = at;
		return at.file ? 1 : 0;
	}
	chain[depth++] = function->die;
	while (depth < DEBUGINFO_FRAMES_MAX &&
	       find_inlined(&chain[depth - 1], pc, 0, &chain[depth]))
		depth++;
	for (size_t i = 0; i < depth; i++) {
		Dwarf_Die *die = &chain[depth - 1 - i];

		ret[i] = at;
		ret[i].function = function_name(die);
		ret[i].is_ada = unit->is_ada;
		at.file = NULL;
		at.line = 0;
		if (i + 1 < depth)
			call_site(unit, die, &at);
	}
	return depth;
}

struct debuginfo *debuginfo_create(Dwarf *dwarf)
{
	struct debuginfo *index = calloc(1, sizeof(*index));

	index->dwarf = dwarf;
	return index;
}

void debuginfo_destroy(struct debuginfo *index)
{
	if (!index)
		return;
	for (size_t i = 0; i < index->units.size; i++)
		if (index->units.slots[i].value)
			free(((struct unit *)index->units.slots[i].value)->functions.items);
	free(index->unit_ranges.items);
	arena_finish(&index->arena);
	free(index);
}
