/* SPDX-License-Identifier: MIT
 *
 * Finds the function of an address in the ELF symbols of one module, if the module has no debug
 * information. Has a sorted table of the symbols.
 */
#ifndef GPULEAK_REPORT_ELFSYMBOLS_H
#define GPULEAK_REPORT_ELFSYMBOLS_H

#include <elfutils/libdwfl.h>

/* Loads the function symbols of MODULE, which must live longer. Uses the full symbol table of the
 * file, of a separate debug file or in .gnu_debugdata. If there is none, uses the dynamic symbol
 * table. */
struct elfsymbols *elfsymbols_create(Dwfl_Module *module);
void elfsymbols_destroy(struct elfsymbols *symbols); /* SYMBOLS may be NULL */

/* Returns the name of the symbol whose range contains ADDRESS (an address as Dwfl uses it), or
 * NULL. A symbol without a size contains no address, because the code after it may belong to a
 * static function whose symbol was stripped. */
const char *elfsymbols_find(const struct elfsymbols *symbols, GElf_Addr address);

#endif
