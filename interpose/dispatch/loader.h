/* SPDX-License-Identifier: MIT
 *
 * The way around our own dlsym, and which module an address lies in.
 */
#ifndef GPULEAK_LOADER_H
#define GPULEAK_LOADER_H

#include <stdbool.h>

#include "interpose/dispatch/hooks.h"

struct link_map;

typedef void *lookup_dlsym(void *handle, const char *name);

/* The next dlsym: another preload's if there is one, else libc's. */
extern lookup_dlsym *lookup_real_dlsym __attribute__((visibility("hidden")));

/* Finds it; called from the constructor, and by the first lookup if that comes earlier. */
void lookup_start(void);

/* What the real dlsym answers to us; for wrappers, not for lookups. */
void *lookup_real(void *handle, const char *name);

/* ADDRESS lies in a library whose name is that of API's driver or loader. Lock-free. */
bool lookup_in_driver(enum api api, const void *address);
/* The module that ADDRESS lies in, NULL for none; and its path, "" for the program itself.
 * Lock-free. Good while the module is loaded. */
const struct link_map *lookup_module(const void *address);
const char *lookup_module_name(const void *address);
/* Such a library's path or soname (base name is looked at). */
bool lookup_is_driver_name(enum api api, const char *path);
/* ADDRESS lies in libgpuleak.so. For lookups too. */
bool resolve_is_ours(const void *address);
/* The API whose driver PATH names, API_COUNT if none. */
enum api lookup_driver_named(const char *path);
/* The same, or a library that works on a driver's behalf. */
bool lookup_works_for_driver(const char *path);

#endif
