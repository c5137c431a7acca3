/* SPDX-License-Identifier: MIT
 *
 * Reads the memory of another process: its libraries and their functions, from the loader's list.
 * Needs no files of the process, so containers and replaced libraries make no difference. Stops
 * and changes nothing. Any thread may call the functions.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool remote_read(int pid, uint64_t address, void *ret, size_t size);
bool remote_write(int pid, uint64_t address, const void *bytes, size_t size);

/* Returns the address of the function NAME in the first module that defines it, and stores the
 * path of the module; "": the program. Returns 0 if there is none, or if process PID has no
 * loader's list. Only looks at libraries whose name begins with PREFIX, unless that is NULL. */
uint64_t remote_find(int pid, const char *prefix, const char *name, char library[PATH_MAX]);
