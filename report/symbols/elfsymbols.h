/* SPDX-License-Identifier: MIT
 *
 * Finds the function of an address in the ELF symbols of one module, for modules without debug
 * information. Owns a sorted table of them.
 */
#ifndef GPULEAK_REPORT_ELFSYMBOLS_H
#define GPULEAK_REPORT_ELFSYMBOLS_H

#include <elfutils/libdwfl.h>

struct elfsymbols;

/* Loads the function symbols of MODULE, which must live longer: the full table, or that of its
 * separate debug file or .gnu_debugdata, or else the dynamic one. 0 or -ENOMEM. */
int elfsymbols_create(Dwfl_Module *module, struct elfsymbols **ret);
void elfsymbols_destroy(struct elfsymbols *symbols); /* NULL is fine */

/* Returns the name of the symbol whose range contains ADDRESS (as Dwfl counts), or NULL. A symbol
 * without a size contains nothing: the code after it may be a static function whose name was
 * stripped. */
const char *elfsymbols_find(const struct elfsymbols *symbols, GElf_Addr address);

#endif
