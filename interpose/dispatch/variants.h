/* SPDX-License-Identifier: MIT
 *
 * Wrappers for functions that exist more than once in a process. With OpenCL these are the
 * functions of several loaders, of a layer's next dispatch table, and of each platform's
 * extensions. Each such hook has SLOTS additional wrappers, each for one real function. The
 * pointer that the caller uses selects the slot.
 *
 * Lookups call this, so it takes no lock and allocates nothing.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "interpose/dispatch/hooks.h"

#define SLOTS 8
enum {
	SLOT_HOOKS = 0
#define GROUP_BEGIN(api, group)                                                             \
	+ (GROUP_##group == GROUP_VARIANTS                                                  \
		   ? HOOK_END_##api##_##group - HOOK_FIRST_##api##_##group : 0)
#include "interpose/dispatch/hooks.def"
};

/* One additional wrapper. Its code stores the slot in slots_taken and jumps to the hook's wrapper.
 * (variants_ARCH.S depends on the size and on the first field.) */
struct slot {
	void *wrapper;
	_Atomic(void *) real;
	/* if gpuleak runs as an OpenCL layer: the dispatch table that contains `real` */
	const void *below;
	void *unused;
};
_Static_assert(sizeof(struct slot) == 4 * sizeof(void *),
	       "variants_ARCH.S assumes this size of a slot");

/* Returns the wrapper that calls REAL on behalf of HOOK, or NULL if all slots of HOOK are taken.
 * BELOW: see struct slot. */
void *slots_wrapper(struct hook *hook, void *real, const void *below);

/* Like slots_wrapper(), for the result of a lookup: if no slot is free, counts a trouble and
 * returns REAL itself. */
void *slots_give(struct hook *hook, void *real);

/* HOOK->wrapper has changed: lets the slots that were handed out earlier lead to it. */
void slots_wrap_again(struct hook *hook);

static inline bool slots_has(const struct hook *hook)
{
	return hook_is_in(hook, GROUP_VARIANTS);
}

/* Set by the slot's code, read and cleared by resolve_driver(). */
extern __thread struct slot *slots_taken
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

static inline struct slot *slots_take(const struct hook *hook)
{
	struct slot *slot = slots_taken;

	slots_taken = NULL;
	/* a GPU call of a signal handler in between clears it, or leaves the slot of another
	 * hook */
	return slot && slot->wrapper == hook->wrapper ? slot : NULL;
}
