/* SPDX-License-Identifier: MIT
 *
 * Calls that exist more than once in a process: OpenCL's, of several loaders, of a layer's
 * next table, of each platform's extensions. Every such call has a few more wrappers, each
 * for one real function; which one is decided by the pointer alone. Lookups come here: no
 * lock, no allocation, no call.
 */
#ifndef GPULEAK_SLOTS_H
#define GPULEAK_SLOTS_H

#include <stdbool.h>
#include <stddef.h>

#include "interpose/dispatch/hooks.h"

#define SLOTS 8
#define SLOT_HOOKS (HOOK_END_VARIANTS - HOOK_FIRST_VARIANTS)

/* One wrapper: a few instructions that note the slot and jump to the hook's wrapper
 * (slots_ARCH.S knows the size and the first field). */
struct slot {
	void *wrapper;
	_Atomic(void *) real;
	const void *below; /* the dispatch table that `real` is an entry of: we are a layer here */
	void *unused;
};
_Static_assert(sizeof(struct slot) == 4 * sizeof(void *), "slots_ARCH.S counts on it");

/* The wrapper that calls REAL on behalf of HOOK; NULL if all of HOOK's are taken. */
void *slots_wrapper(struct hook *hook, void *real, const void *below);

/* The same for whom a lookup answers: REAL itself, and a note of it, if there is none. */
void *slots_give(struct hook *hook, void *real);

static inline bool slots_has(const struct hook *hook)
{
	return hook >= &hooks[HOOK_FIRST_VARIANTS] && hook < &hooks[HOOK_END_VARIANTS];
}

/* Set on the way into a wrapper, taken by resolve_driver(). */
extern __thread struct slot *slots_taken
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

static inline struct slot *slots_take(const struct hook *hook)
{
	struct slot *slot = slots_taken;

	slots_taken = NULL;
	return slot && slot->wrapper == hook->wrapper ? slot : NULL; /* a signal in between */
}

/* The recorded call that this thread is in. The loader comes back to us with it if we are a
 * layer too: that second meeting takes the mark and passes the call on unrecorded. What a
 * callback or a driver calls from there has a mark of its own or finds this one taken. */
struct inside {
	const struct hook *hook; /* NULL: not inside any */
	void *real;
	const void *below;
	bool met; /* the layer has seen it, or it came by the layer */
	bool kept; /* to be restored */
};
extern __thread struct inside slots_inside
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

static inline struct inside inside_enter(const struct hook *hook, void *real, const void *below)
{
	struct inside before = { 0 };

	if (slots_has(hook)) {
		before = slots_inside;
		before.kept = true;
		slots_inside = (struct inside){ hook, real, below, below != NULL, false };
	}
	return before;
}

static inline void inside_leave(struct inside *before)
{
	if (before->kept)
		slots_inside = *before;
}

/* The real call is about to be made once more: nobody has met this one. */
static inline void inside_again(void)
{
	slots_inside.met = slots_inside.below != NULL;
}

/* Until the end of the block: HOOK's call goes to ROUTE. A declaration; every wrapper of an
 * OpenCL call has it before it makes the real one. */
#define INSIDE(hook, route)                                                            \
	struct inside inside_before __attribute__((cleanup(inside_leave), unused)) =   \
		inside_enter(hook, (route).real, (route).below)

#endif
