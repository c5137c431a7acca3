/* SPDX-License-Identifier: MIT
 *
 * The table of intercepted calls: one struct hook per row of hooks.def. Owns names and
 * numbers; where the real functions are is resolve.c's.
 */
#ifndef GPULEAK_HOOKS_H
#define GPULEAK_HOOKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum api {
#define API_BEGIN(api) API_##api,
#include "interpose/dispatch/hooks.def"
	API_COUNT
};

/* HOOK_FIRST_ and HOOK_END_ of an API or a group take no number of their own. */
enum hook_id {
#define API_BEGIN(api) HOOK_FIRST_##api, HOOK_BEFORE_##api = HOOK_FIRST_##api - 1,
#define API_END(api) HOOK_END_##api, HOOK_LAST_##api = HOOK_END_##api - 1,
#define GROUP_BEGIN(group) API_BEGIN(group)
#define GROUP_END(group) API_END(group)
#define HOOK(symbol, ...) HOOK_##symbol,
#define HAND(symbol, ...) HOOK_##symbol,
#include "interpose/dispatch/hooks.def"
	HOOK_COUNT,
	HOOK_LAST = HOOK_COUNT - 1,
/* The same calls, making blocks of another kind: only names and kinds, see hook_making(). */
#define MAKES(symbol, kind) HOOK_##symbol##_##kind,
#include "interpose/dispatch/hooks.def"
	HOOK_ALL
};

enum used_id {
#define API_BEGIN(api) USED_FIRST_##api, USED_BEFORE_##api = USED_FIRST_##api - 1,
#define API_END(api) USED_END_##api, USED_LAST_##api = USED_END_##api - 1,
#define USED(symbol, ...) USED_##symbol,
#include "interpose/dispatch/hooks.def"
	USED_COUNT
};

struct hook {
	const char *name;
	const char *kind;      /* "" where the call makes no block */
	void *wrapper;         /* what a lookup gets: calls `driver` */
	enum api api;
	_Atomic(void *) driver; /* the driver's own function, NULL = not found yet */
	_Atomic(void *) direct; /* what a call linked to the name reaches without us */
	_Atomic bool look_alike; /* `direct` is no driver's: pass on, record nothing */
	_Atomic signed char lasting; /* its blocks outlive their context: 1 yes, -1 no, 0 unasked */
	_Atomic uint32_t name_ref, kind_ref; /* in the present ledger, 0 = not written yet */
};
extern struct hook hooks[HOOK_ALL];

struct used {
	const char *name;
	enum api api;
	_Atomic(void *) driver;
};
extern struct used used[USED_COUNT];

/* The hook of that name, or NULL. Lock-free, allocation-free: the lookup path asks. */
struct hook *hook_find(const char *name);
/* HOOK is a row of cuda_submits.def. */
static inline bool hook_submits(const struct hook *hook)
{
	return hook >= &hooks[HOOK_FIRST_SUBMITS] && hook < &hooks[HOOK_END_SUBMITS];
}
/* HOOK is there for the pool alone. */
static inline bool hook_is_for_pool(const struct hook *hook)
{
	return hook_submits(hook) ||
	       (hook >= &hooks[HOOK_FIRST_POOL] && hook < &hooks[HOOK_END_POOL]);
}
/* HOOK serves nothing that is wanted in this process: lookups give the driver's own function. */
bool hook_is_off(const struct hook *hook);

/* The hook whose driver function is at ADDRESS, or NULL. */
struct hook *hook_of_driver(enum api api, const void *address);

/* HOOK as the maker of blocks of KIND, which has a MAKES row; NULL without one. */
struct hook *hook_making(const struct hook *hook, const char *kind);

/* Forgets refs into a ledger that is gone (a forked child starts its own). */
void hooks_forget_refs(void);

#endif
