/* SPDX-License-Identifier: MIT
 *
 * The table of intercepted calls: one struct hook for each row of hooks.def. Owns names and
 * numbers. resolve.c finds the real functions.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum api {
#define API_BEGIN(api) API_##api,
#include "interpose/dispatch/hooks.def"
	API_COUNT
};

/* HOOK_FIRST_ and HOOK_END_ mark the range of an API or a group and use no number of their own. */
enum hook_id {
#define API_BEGIN(api) HOOK_FIRST_##api, HOOK_BEFORE_##api = HOOK_FIRST_##api - 1,
#define API_END(api) HOOK_END_##api, HOOK_LAST_##api = HOOK_END_##api - 1,
#define GROUP_BEGIN(api, group) API_BEGIN(api##_##group)
#define GROUP_END(api, group) API_END(api##_##group)
#define HOOK(symbol, ...) HOOK_##symbol,
#define HAND(symbol, ...) HOOK_##symbol,
#include "interpose/dispatch/hooks.def"
	HOOK_COUNT,
	HOOK_LAST = HOOK_COUNT - 1,
/* Hooks for the same calls with blocks of another kind. They have only a name and a kind, see
 * hook_making(). */
#define MAKES(symbol, kind) HOOK_##symbol##_##kind,
#include "interpose/dispatch/hooks.def"
	HOOK_ALL,
/* Hooks for memory regions of NVTX, one for each name of heaps: nvtx/nvtx_memory.c names them. */
#define HEAP_NAMES 64
	HOOK_HEAPS = HOOK_ALL,
	HOOK_TOTAL = HOOK_HEAPS + HEAP_NAMES
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
	const char *kind;      /* "" if the call makes no block */
	void *wrapper;         /* the function that a lookup returns; it calls `driver` */
	enum api api;
	unsigned char object; /* index in `kinds` of a kind of objects; 0: not such a kind */
	_Atomic(void *) driver; /* the driver's own function; NULL: not found yet */
	_Atomic(void *) direct; /* the function that a linked call would reach without gpuleak */
	_Atomic bool look_alike; /* `direct` is not a driver's: call it, record nothing */
	/* The guard needs this call: `wrapper` is its guarded wrapper, and `direct` stays NULL, so
	 * that exported wrappers take their way for missing functions: see guarded_linked(). */
	bool is_guarded;
	/* 1: its blocks outlive their context, -1: they do not, 0: not determined yet */
	_Atomic signed char lasting;
	/* refs of `name` and `kind` in the current ledger; 0: not written yet */
	_Atomic uint32_t name_ref, kind_ref;
};
extern struct hook hooks[HOOK_TOTAL];

struct used {
	const char *name;
	enum api api;
	_Atomic(void *) driver;
};
extern struct used used[USED_COUNT];

/* Returns the hook NAME, or NULL. Takes no lock and allocates nothing, so it is safe in lookups. */
struct hook *hook_find(const char *name);

enum hook_group { GROUP_GUARD, GROUP_POOL, GROUP_SUBMITS, GROUP_LAUNCHES, GROUP_VARIANTS };
/* Returns true if HOOK is a row of GROUP. */
static inline bool hook_is_in(const struct hook *hook, enum hook_group group)
{
	return false
#define GROUP_BEGIN(api, name)                                                              \
	|| (group == GROUP_##name && hook >= &hooks[HOOK_FIRST_##api##_##name] &&           \
	    hook < &hooks[HOOK_END_##api##_##name])
#include "interpose/dispatch/hooks.def"
		;
}

enum hook_trait { TRAIT_OPENS, TRAIT_PHYSICAL, TRAIT_LOOKS_UP };
static inline bool hook_has(const struct hook *hook, enum hook_trait trait)
{
	return false
#define TRAIT(symbol, name) || (trait == TRAIT_##name && hook == &hooks[HOOK_##symbol])
#include "interpose/dispatch/hooks.def"
		;
}

/* Returns true if KIND_REF is the ref that the kind of a hook with TRAIT has. */
static inline bool hook_kind_has(uint32_t kind_ref, enum hook_trait trait)
{
	return false
#define TRAIT(symbol, name)                                                                 \
	|| (trait == TRAIT_##name &&                                                        \
	    kind_ref ==                                                                     \
		    atomic_load_explicit(&hooks[HOOK_##symbol].kind_ref, memory_order_relaxed))
#include "interpose/dispatch/hooks.def"
		;
}

/* Returns true if no option needs HOOK. */
bool hook_is_unneeded(const struct hook *hook);
/* Returns what a lookup of HOOK returns while recording is off. REAL is the driver's function. */
void *hook_when_off(struct hook *hook, void *real);
/* Replaces the result of hook_when_off() in a process that was started with GPULEAK_RECORD=off. */
extern void *(*hook_prepared)(struct hook *hook, void *real);

/* Returns true if no enabled feature needs HOOK. Then lookups return the driver's own function. */
bool hook_is_off(const struct hook *hook);

/* A second function that a lookup may return for a row: see GUARD_ROW in interpose/guard/. */
struct guarded_wrapper {
	void *wrapper;       /* or NULL, if the row has no line in guard_rows.h */
	unsigned int levels; /* set of enum option_guard: lookups return it if one of these is on */
};
/* Call once, after the options are read. Lookups return guarded wrappers from now on. */
void hooks_guard(void);

/* Returns the hook of API whose driver function is at ADDRESS, or NULL. */
struct hook *hook_of_driver(enum api api, const void *address);

/* Returns the variant of HOOK that makes blocks of KIND, or NULL if there is no such MAKES row. */
struct hook *hook_making(const struct hook *hook, const char *kind);

/* Clears the refs into the ledger, because a forked child starts a new ledger. */
void hooks_forget_refs(void);
