/* SPDX-License-Identifier: MIT
 *
 * Finds the OpenCL loader that a linked call would reach without gpuleak. A process may have
 * several loaders: PyOpenCL's wheel contains its own, another library links the system's.
 */
#ifndef GPULEAK_CALLERS_H
#define GPULEAK_CALLERS_H

#include <stdbool.h>

#include "interpose/dispatch/hooks.h"

struct link_map;
struct route;

/* A module is what module_of() returns: NULL if it is unknown. */

/* Returns the function that a call of HOOK from MODULE would reach without gpuleak. */
struct route callers_route(struct hook *hook, const struct link_map *module);

/* Returns true if MODULE is an implementation of OpenCL. */
bool callers_is_vendor(const struct link_map *module);

/* Returns the function ID, which gpuleak itself calls, from MODULE. If MODULE does not have it,
 * returns that of any loaded driver, or NULL. */
void *callers_used(enum used_id id, const struct link_map *module);

/* Empties the cache, because a library may have been unloaded. */
void callers_forget(void);

#endif
