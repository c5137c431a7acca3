/* SPDX-License-Identifier: MIT
 *
 * Reads the memory of another process: its libraries and their functions, from the loader's list.
 * Needs no files of the process, so containers and replaced libraries make no difference. Stops
 * and changes nothing. Any thread may call the functions.
 */
#ifndef GPULEAK_TOOLS_REMOTE_H
#define GPULEAK_TOOLS_REMOTE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A library of the process, or the program itself, whose name is "". */
struct remote_module {
	uint64_t bias, dynamic;
	uint64_t next; /* address of the next element of the loader's list; 0: none */
	char name[PATH_MAX];
};

bool remote_read(int pid, uint64_t address, void *ret, size_t size);
bool remote_write(int pid, uint64_t address, const void *bytes, size_t size);

/* Stores the first module in *RET. Returns false if process PID has no loader's list: it is linked
 * statically, or has not begun. */
bool remote_first(int pid, struct remote_module *ret);
bool remote_next(int pid, struct remote_module *module);

/* Returns the address of the function NAME of MODULE; 0 if MODULE does not define it. */
uint64_t remote_symbol(int pid, const struct remote_module *module, const char *name);

/* Returns the address of the function NAME in the first module that defines it, which is stored in
 * *RET. Only looks at libraries whose name begins with PREFIX, unless that is NULL. */
uint64_t remote_find(int pid, const char *prefix, const char *name, struct remote_module *ret);

#endif
