/* SPDX-License-Identifier: MIT
 *
 * Finds the function of an address in a sorted table of symbols: those of one module's file, or
 * names from another source.
 */
#pragma once

#include <elfutils/libdwfl.h>

/* Loads the function symbols of MODULE, which must live longer. Uses the full symbol table of the
 * file, of a separate debug file or in .gnu_debugdata, else its dynamic symbols and Go's table. */
struct elfsymbols *elfsymbols_create(Dwfl_Module *module);

/* Returns an empty table. */
struct elfsymbols *elfsymbols_create_empty(void);

/* Adds the function NAME, which must live longer, at START to a table that was created empty. Adds
 * nothing if BYTES is 0. Of several names for the same range, the one with the highest RANK is
 * used. */
void elfsymbols_add(struct elfsymbols *symbols, uint64_t start, uint64_t bytes, const char *name,
		    int rank);

/* Orders the table after the last elfsymbols_add(), for elfsymbols_last(). */
void elfsymbols_sort(struct elfsymbols *symbols);

void elfsymbols_destroy(struct elfsymbols *symbols); /* SYMBOLS may be NULL */

/* Returns the name of the symbol whose range contains ADDRESS (an address as Dwfl uses it), or
 * NULL. A symbol without a size contains no address, because the code after it may belong to a
 * static function whose symbol was stripped. */
const char *elfsymbols_find(struct elfsymbols *symbols, GElf_Addr address);

/* Returns the name with the highest rank whose range contains ADDRESS, or NULL. Stores the name
 * with the next lower rank in *RET_EARLIER, or NULL. */
const char *elfsymbols_last(const struct elfsymbols *symbols, GElf_Addr address,
			    const char **ret_earlier);

Elf_Scn *elf_section(Elf *file, const char *name); /* NULL: FILE has no such section */
