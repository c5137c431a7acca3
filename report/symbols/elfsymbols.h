/* SPDX-License-Identifier: MIT
 *
 * The function of an address by the ELF symbols of one module: what is left to go by where
 * there is no debug information. Owns a sorted table of them; knows nothing else.
 */
#ifndef GPULEAK_REPORT_ELFSYMBOLS_H
#define GPULEAK_REPORT_ELFSYMBOLS_H

#include <elfutils/libdwfl.h>

struct elfsymbols;

/* The function symbols of MODULE, which must live longer: the full table, that of its
 * separate debug file or .gnu_debugdata, or else the dynamic one. 0 or -ENOMEM. */
int elfsymbols_create(Dwfl_Module *module, struct elfsymbols **ret);
void elfsymbols_destroy(struct elfsymbols *symbols); /* NULL is fine */

/* The name of the symbol whose range holds ADDRESS (as Dwfl counts), or NULL. A symbol
 * without a size holds nothing: what follows it may be some static function that stripping
 * made nameless. */
const char *elfsymbols_find(const struct elfsymbols *symbols, GElf_Addr address);

#endif
