/* SPDX-License-Identifier: MIT
 *
 * Calls the real dlsym, and recognizes drivers and gpuleak itself by address or file name.
 */
#pragma once

#include <stdbool.h>

#include "interpose/dispatch/hooks.h"

typedef void *lookup_dlsym(void *handle, const char *name);

/* The dlsym after gpuleak's: another preloaded library's if there is one, otherwise libc's. */
extern lookup_dlsym *lookup_real_dlsym __attribute__((visibility("hidden")));

/* Sets lookup_real_dlsym. Called by the constructor, or by the first lookup if that comes
 * earlier. */
void lookup_start(void);

/* Returns the result of the real dlsym with gpuleak as the caller. For wrappers, not for
 * lookups. */
void *lookup_real(void *handle, const char *name);

/* Returns a handle of the loaded library at PATH, for lookup_close(), or NULL. Calls libc's dlopen:
 * another preloaded library's may answer a driver's path with another library. */
void *lookup_loaded(const char *path);

/* Closes HANDLE without gpuleak's own dlclose, which would treat it as an unloaded module. */
void lookup_close(void *handle);

/* Returns true if ADDRESS lies in a library with the file name of API's driver or loader. Takes no
 * lock. */
bool lookup_in_driver(enum api api, const void *address);
/* Returns the path of the module that ADDRESS lies in, "" for the program itself, or NULL. Takes no
 * lock. */
const char *lookup_module_name(const void *address);
/* Returns true if the file name in PATH (a path or soname) is that of API's driver or loader. */
bool lookup_is_driver_name(enum api api, const char *path);
/* Returns true if ADDRESS lies in libgpuleak.so. Safe in lookups. */
bool resolve_is_ours(const void *address);
/* Returns the API whose driver PATH names, or API_COUNT. */
enum api lookup_driver_named(const char *path);
/* Returns true if PATH names a driver, or a library that calls a driver on its behalf. */
bool lookup_works_for_driver(const char *path);
/* Returns true if ADDRESS lies in such a library, or in an OpenCL implementation. Takes no lock,
 * except before glibc 2.35: see module_of(). */
bool lookup_is_of_driver(const void *address);

/* ---- the application's pending dlerror() message: dlerror_state.c. Every successful loader call
 * clears it, and reading it also clears it. So the message is read first, and produced again
 * afterwards. ---- */

struct dlerror_state {
	char message[1024]; /* "": no message was pending */
};

/* Call these around loader calls in a wrapper. Do not call them in a lookup: it calls the loader on
 * the application's behalf, and must change the state as that call does. */
void dlerror_take(struct dlerror_state *ret);
void dlerror_give_back(const struct dlerror_state *state);
