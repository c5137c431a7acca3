/* SPDX-License-Identifier: MIT
 *
 * Finds functions in the dependencies of a loaded module by reading their symbol tables.
 *
 * dlopen() with RTLD_NOLOAD, which dlsym() needs for a handle, runs the constructors of the
 * module's dependencies that did not run yet. If a constructor calls gpuleak, this would run them
 * in a wrong order.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct link_map;

/* Finds the function NAME: first in the module that contains ADDRESS, then in the libraries that
 * this module was linked with, nearest first. Returns NULL if no module has it. *RET_BYTES, unless
 * RET_BYTES is NULL, gets the length of the function's code. The function takes the loader's lock,
 * runs no constructor, and needs 64 KiB of stack. */
void *scope_find(const void *address, const char *name, size_t *ret_bytes);

/* Returns true if the module of MAP itself defines the function NAME. Takes no lock. MAP must not
 * be unloaded meanwhile. */
bool scope_exports(const struct link_map *map, const char *name);
