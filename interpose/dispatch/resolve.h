/* SPDX-License-Identifier: MIT
 *
 * Where the real functions are. Wrappers ask on every call (one load when known).
 */
#ifndef GPULEAK_RESOLVE_H
#define GPULEAK_RESOLVE_H

#include <stdbool.h>
#include <stddef.h>

#include "interpose/dispatch/callers.h"
#include "interpose/dispatch/hooks.h"
#include "interpose/base/hot.h"
#include "interpose/dispatch/variants.h"

struct route {
	void *real;  /* NULL: there is no such function in this process */
	bool record; /* it is a driver's, and nobody else records this call */
	const void *below; /* we are an OpenCL layer: the table that `real` is an entry of */
};

/* The function at REAL, of TYPE, called with ARGUMENTS. */
#define DRIVER_CALL(real, type, arguments) ((type)(real))arguments

struct route resolve_direct_slowly(struct hook *hook);
struct route resolve_driver_slowly(struct hook *hook);

/* For calls that reached us because the caller is linked to the name. OpenCL's loaders may
 * be several: which one depends on who calls, so this stands in the exported function
 * itself. Who jumped here instead of calling is taken for his own caller. */
static inline struct route resolve_direct_from(struct hook *hook, const void *caller)
{
	void *real;

	if (slots_has(hook))
		return callers_route(hook, caller);
	real = atomic_load_explicit(&hook->direct, memory_order_acquire);
	if (__builtin_expect(real != NULL, 1))
		return (struct route){ real, !atomic_load_explicit(&hook->look_alike,
								   memory_order_relaxed) };
	return resolve_direct_slowly(hook);
}
#define resolve_direct(hook) resolve_direct_from(hook, __builtin_return_address(0))

/* For calls by one of the slots. As a layer we may meet a call a second time, or one that
 * the implementation below makes itself (loaders jump here, so CALLER is who called them). */
static inline struct route resolve_slot(struct hook *hook, struct slot *slot, const void *caller)
{
	struct route route = { atomic_load_explicit(&slot->real, memory_order_acquire), true,
			       slot->below };

	if (slot->below && slots_inside.hook == hook && !slots_inside.met) {
		slots_inside.met = true;
		route.record = false;
	} else if (slot->below && callers_is_vendor(caller)) {
		route.record = false;
	}
	return route;
}

/* For calls through a pointer that a lookup gave out. */
static inline struct route resolve_driver_from(struct hook *hook, const void *caller)
{
	struct slot *slot = slots_has(hook) ? slots_take(hook) : NULL;
	void *real;

	if (slot)
		return resolve_slot(hook, slot, caller);
	real = atomic_load_explicit(&hook->driver, memory_order_acquire);
	return real ? (struct route){ real, true } : resolve_driver_slowly(hook);
}
#define resolve_driver(hook) resolve_driver_from(hook, __builtin_return_address(0))

/* The driver's function for one of our own questions, or NULL. */
COLD void *resolve_used_slowly(enum used_id id);
static HOT void *resolve_used(enum used_id id)
{
	void *known = atomic_load_explicit(&used[id].driver, memory_order_acquire);

	return __builtin_expect(known != NULL, 1) ? known : resolve_used_slowly(id);
}

/* Finds the driver function of every hook of API, so that a pointer can be recognized. */
void resolve_all(enum api api);

/* Forgets the functions of libraries that were unloaded: a driver that is loaded again may lie
 * at other addresses. */
void resolve_forget_unloaded(void);

/* NAME in the loaded library at PATH or what that links. */
void *resolve_in(const char *path, const char *name);

/* NAME in whatever library comes after us: libc's own _exit, execve and so on. */
void *resolve_next(const char *name);

/* libc's NAME in the program's namespace; NULL if that is ours too. */
void *resolve_of_program(const char *name);

bool resolve_driver_is_loaded(enum api api);
/* Some library is loaded whose file name begins with PREFIX. Takes the loader's lock. */
bool resolve_is_loaded(const char *prefix);

#endif
