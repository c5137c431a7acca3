/* SPDX-License-Identifier: MIT
 *
 * One row for each exported symbol, sorted by name, then stream, then version.
 * Read by resolver.c alone.
 */
#ifndef GPULEAK_STANDIN_RESOLVER_TABLE_H
#define GPULEAK_STANDIN_RESOLVER_TABLE_H

struct resolver_row {
	const char *base;
	int since;
	int per_thread;
	int (*function)(void);
};
extern const struct resolver_row resolver_table[];
extern const int resolver_rows;

#endif
