/* SPDX-License-Identifier: MIT
 *
 * Finds functions in the dependencies of a loaded module by reading their symbol tables.
 *
 * dlopen() with RTLD_NOLOAD, which dlsym() needs for a handle, runs the constructors of the
 * module's dependencies that did not run yet. If a constructor calls gpuleak, this would run them
 * in a wrong order.
 */
#ifndef GPULEAK_SCOPE_H
#define GPULEAK_SCOPE_H

#include <stddef.h>

/* Returns the function NAME of the module that contains ADDRESS, or else of the libraries that it
 * was linked with, nearest first. Returns NULL if there is none. Stores its length in *RET_BYTES if
 * that is not NULL. Takes the loader's lock, runs no constructor, and needs 64 KiB of stack. */
void *scope_find(const void *address, const char *name, size_t *ret_bytes);

#endif
