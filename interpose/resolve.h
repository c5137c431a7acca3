/* SPDX-License-Identifier: MIT
 *
 * Where the real functions are. Wrappers ask on every call (one load when known).
 */
#ifndef GPULEAK_RESOLVE_H
#define GPULEAK_RESOLVE_H

#include <stdbool.h>
#include <stddef.h>

#include "hooks.h"

struct route {
	void *real;  /* NULL: there is no such function in this process */
	bool record; /* it is a driver's */
};

struct route resolve_direct_slowly(struct hook *hook);
struct route resolve_driver_slowly(struct hook *hook);

/* For calls that reached us because the caller is linked to the name. */
static inline struct route resolve_direct(struct hook *hook)
{
	void *real = atomic_load_explicit(&hook->direct, memory_order_acquire);

	if (__builtin_expect(real != NULL, 1))
		return (struct route){ real, !atomic_load_explicit(&hook->look_alike,
								   memory_order_relaxed) };
	return resolve_direct_slowly(hook);
}

/* For calls through a pointer that a lookup gave out. */
static inline struct route resolve_driver(struct hook *hook)
{
	void *real = atomic_load_explicit(&hook->driver, memory_order_acquire);

	return real ? (struct route){ real, true } : resolve_driver_slowly(hook);
}

/* The driver's function for one of our own questions, or NULL. */
void *resolve_used(enum used_id id);

/* Finds the driver function of every hook of API, so that a pointer can be recognized. */
void resolve_all(enum api api);

/* NAME in whatever library comes after us: libc's own _exit, execve and so on. */
void *resolve_next(const char *name);

bool resolve_driver_is_loaded(enum api api);
/* ADDRESS lies in libgpuleak.so. */
bool resolve_is_ours(const void *address);

#endif
