/* SPDX-License-Identifier: MIT
 *
 * Which loader a caller that is linked to the name means, where a process has several:
 * PyOpenCL's wheel brings its own, the next library links the system's.
 */
#ifndef GPULEAK_CALLERS_H
#define GPULEAK_CALLERS_H

#include <stdbool.h>

#include "interpose/dispatch/hooks.h"

struct route;

/* What a call of HOOK from the code at CALLER reaches without us. */
struct route callers_route(struct hook *hook, const void *caller);

/* CALLER lies in an implementation of OpenCL. */
bool callers_is_vendor(const void *caller);

/* The function for one of our own questions in the library that ADDRESS lies in; if it has
 * none there, any driver's. */
void *callers_used(enum used_id id, const void *address);

/* A library may be gone: what was found is looked for again. */
void callers_forget(void);

#endif
