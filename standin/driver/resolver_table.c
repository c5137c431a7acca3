/* SPDX-License-Identifier: MIT
 *
 * resolver.def as an array. It stands apart because here every exported symbol is declared
 * as the same plain function, which no file that sees the true prototypes may do.
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
