/* SPDX-License-Identifier: MIT
 *
 * Finds the OpenCL loader that a linked call would reach without gpuleak. A process may have
 * several loaders: PyOpenCL's wheel contains its own, another library links the system's.
 */
#ifndef GPULEAK_CALLERS_H
#define GPULEAK_CALLERS_H

#include <stdbool.h>

#include "interpose/dispatch/hooks.h"

struct route;

/* Returns the function that a call of HOOK from the code at CALLER would reach without gpuleak. */
struct route callers_route(struct hook *hook, const void *caller);

/* Returns true if CALLER lies in an implementation of OpenCL. */
bool callers_is_vendor(const void *caller);

/* Returns function ID from the library that contains ADDRESS. If that library does not have it,
 * returns any driver's. gpuleak itself calls this function. */
void *callers_used(enum used_id id, const void *address);

/* Empties the cache, because a library may have been unloaded. */
void callers_forget(void);

#endif
