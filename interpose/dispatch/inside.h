/* SPDX-License-Identifier: MIT
 *
 * The OpenCL call that a thread is in, so that gpuleak recognizes the same call when it comes again
 * through its layer. Every wrapper of an OpenCL function has an INSIDE line before the real call.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "interpose/dispatch/hooks.h"

/* If gpuleak is an OpenCL layer too, the loader calls gpuleak again for the same call. That second
 * call sets `met` and is not recorded. A further call that a callback or a driver makes meanwhile
 * has its own struct inside, or finds `met` set: so it is recorded. */
struct inside {
	const struct hook *hook; /* NULL: the thread is in no such call */
	void *real;
	const void *below; /* see struct route */
	bool met; /* the layer has passed the call on, or the call came through the layer */
};
extern __thread struct inside thread_inside
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Marks the thread as inside HOOK's call of REAL. Returns the earlier mark, for inside_leave(). */
static inline struct inside inside_enter(const struct hook *hook, void *real, const void *below)
{
	const struct inside before = thread_inside;

	thread_inside = (struct inside){ hook, real, below, below != NULL };
	return before;
}

static inline void inside_leave(const struct inside *before)
{
	thread_inside = *before;
}

/* Prepares another call of the real function: the layer has not passed it on yet. */
static inline void inside_again(void)
{
	thread_inside.met = thread_inside.below != NULL;
}

/* Marks the thread as inside HOOK's call to ROUTE until the end of the enclosing block. This is a
 * declaration. */
#define INSIDE(hook, route)                                                            \
	struct inside inside_before __attribute__((cleanup(inside_leave), unused)) =   \
		inside_enter(hook, (route).real, (route).below)
