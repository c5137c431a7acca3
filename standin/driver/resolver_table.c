/* SPDX-License-Identifier: MIT
 *
 * resolver.def as an array. It is a file of its own, because it declares every exported symbol as a
 * function without parameters. No file that includes the true prototypes can do that.
 */
#include "standin/driver/resolver_table.h"

#define FOUND(base, since, symbol, per_thread) \
	extern __attribute__((visibility("default"))) int symbol(void);
#include "standin/driver/resolver.def"
#undef FOUND

const struct resolver_row resolver_table[] = {
#define FOUND(base, since, symbol, per_thread) { #base, since, per_thread, symbol },
#include "standin/driver/resolver.def"
#undef FOUND
};
const int resolver_rows = sizeof(resolver_table) / sizeof(resolver_table[0]);
