/* SPDX-License-Identifier: MIT
 *
 * Finds the real functions. Wrappers call this on every GPU call, which costs one load once the
 * function is known.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "interpose/dispatch/find_module.h"
#include "interpose/dispatch/hooks.h"
#include "interpose/dispatch/inside.h"
#include "interpose/base/hot.h"
#include "interpose/dispatch/variants.h"

struct caller;

struct route {
	void *real;  /* NULL: there is no such function in this process */
	bool record; /* it is a driver's, and no other wrapper records this call */
	/* if gpuleak runs as an OpenCL layer: the dispatch table that contains `real` */
	const void *below;
};

/* Calls the function at REAL, which has type TYPE, with ARGUMENTS. */
#define DRIVER_CALL(real, type, arguments) ((type)(real))arguments
/* The function at REAL, with the type of the row SYMBOL. */
#define DRIVER(symbol, real) ((__typeof__(&(symbol)))(real))

/* ---- callers.c: the OpenCL loader that a linked call would reach without gpuleak. A process
 * may have several loaders: PyOpenCL's wheel contains its own, another library links the
 * system's. ---- */

/* Returns the function that a call of HOOK from the code at CALLER would reach without gpuleak. */
struct route callers_route(struct hook *hook, const void *caller);

/* Returns true if MODULE, which module_of() has found, is an implementation of OpenCL. */
bool callers_is_vendor(const struct link_map *module);

/* Returns the function ID, which gpuleak itself calls, from the module that has the function REAL.
 * If the module does not have it, returns that of any loaded driver, or NULL. */
void *callers_used(enum used_id id, const void *real);

/* Empties the caches, because a library may have been unloaded. */
void callers_forget(void);

/* ---- resolve.c ---- */

struct route resolve_direct_slowly(struct hook *hook);
struct route resolve_driver_slowly(struct hook *hook);

/* Returns the real function for a call whose caller is linked to the name. A process may have
 * several OpenCL loaders; the caller decides which one is used. So resolve_direct() must stand in
 * the exported function itself, whose return address identifies the caller. After a tail call the
 * return address belongs to the caller's caller. */
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

/* Returns the real function for a call through a slot (variants.h). As an OpenCL layer, gpuleak may
 * see a call a second time, or see one that the implementation makes itself. Neither is recorded.
 * (Loaders jump here, so CALLER is the code that called the loader.) */
static inline struct route resolve_slot(struct hook *hook, struct slot *slot, const void *caller)
{
	struct route route = { atomic_load_explicit(&slot->real, memory_order_acquire), true,
			       slot->below };

	if (slot->below && thread_inside.hook == hook && !thread_inside.met) {
		thread_inside.met = true;
		route.record = false;
	} else if (slot->below && callers_is_vendor(module_of(caller))) {
		route.record = false;
	}
	return route;
}

/* Returns the real function for a call through a pointer that a lookup returned. */
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

/* ---- guarded calls: see hooks_guard(). A guarded wrapper uses resolve_guarded(). A linked call
 * reaches it through the exported wrapper, whose resolve_direct() has found no function. ---- */

struct linked_call {
	const struct hook *hook; /* NULL: none */
	void *real;              /* what the exported wrapper would call */
	const struct caller *caller;
};
extern __thread struct linked_call linked_call
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Stores for the guarded wrapper of HOOK that the exported wrapper would call REAL. Returns a route
 * without a function. */
struct route linked_store(const struct hook *hook, void *real);

/* Returns true if the exported wrapper that found no function has to call HOOK->wrapper. CALLER is
 * its own. */
static inline bool guarded_linked(const struct hook *hook, const struct caller *caller)
{
	if (linked_call.hook != hook)
		return false;
	linked_call.caller = caller;
	return true;
}

/* As resolve_driver(). If the exported wrapper made the call, replaces *CALLER by its caller. */
static inline struct route resolve_guarded_from(struct hook *hook, const void *from,
						const struct caller **caller)
{
	struct route route = { linked_call.real, true, NULL };

	if (linked_call.hook != hook)
		return resolve_driver_from(hook, from);
	*caller = linked_call.caller;
	linked_call.hook = NULL;
	return route;
}

/* Returns the driver's function ID, which gpuleak itself calls, or NULL. */
COLD void *resolve_used_slowly(enum used_id id);
static HOT void *resolve_used(enum used_id id)
{
	void *known = atomic_load_explicit(&used[id].driver, memory_order_acquire);

	return __builtin_expect(known != NULL, 1) ? known : resolve_used_slowly(id);
}

/* Finds the driver function of every hook of API, so that hook_of_driver() can recognize pointers
 * to it. */
void resolve_all(enum api api);

/* Clears the pointers into libraries that were unloaded. A driver that is loaded again may have
 * other addresses. */
void resolve_forget_unloaded(void);

/* Returns the function NAME from the loaded library at PATH or the libraries that it links, or
 * NULL. */
void *resolve_in(const char *path, const char *name);

/* Returns the next function NAME after gpuleak in the search order, for example libc's own
 * _exit. */
void *resolve_next(const char *name);

/* Returns gpuleak's own export NAME if a library behind it has such a function, or NULL. */
void *resolve_export(const char *name);

/* Returns libc's NAME in the program's namespace, or NULL if gpuleak is in the same namespace. */
void *resolve_of_program(const char *name);

bool resolve_driver_is_loaded(enum api api);
/* Returns true if a library is loaded whose file name begins with PREFIX. Takes the loader's
 * lock. */
bool resolve_is_loaded(const char *prefix);
