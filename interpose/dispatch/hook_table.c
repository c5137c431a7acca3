/* SPDX-License-Identifier: MIT
 *
 * The table of hooks, generated from the rows of hooks.def, and the search in it. The addresses of
 * wrappers come from each API's struct api_ops.
 */
#include "interpose/dispatch/hooks.h"

#include <string.h>

#include "interpose/base/config.h"
#include "interpose/dispatch/api.h"
#include "interpose/dispatch/resolve.h"
#include "interpose/dispatch/variants.h"
#include "ledger/kind_table.h"

struct hook hooks[HOOK_TOTAL] = {
#define HOOK(symbol, returns, parameters, arguments, verb, made, kind_, key, size)          \
	[HOOK_##symbol] = { .name = #symbol, .kind = kind_ },
#define HAND(symbol, returns, parameters, arguments, function, ...)                         \
	[HOOK_##symbol] = { .name = #symbol, .kind = "" __VA_ARGS__ },
#define MAKES(symbol, kind_) [HOOK_##symbol##_##kind_] = { .name = #symbol, .kind = #kind_ },
#include "interpose/dispatch/hooks.def"
};

struct used used[USED_COUNT] = {
#define USED(symbol, returns, parameters) [USED_##symbol] = { .name = #symbol },
#include "interpose/dispatch/hooks.def"
};

/* The range of row numbers of each API. */
static const struct {
	int first_hook, end_hook, first_used, end_used;
} ranges[API_COUNT] = {
#define API_BEGIN(api)                                                                      \
	[API_##api] = { HOOK_FIRST_##api, HOOK_END_##api, USED_FIRST_##api, USED_END_##api },
#include "interpose/dispatch/hooks.def"
};

/* The row from which each variant of a call was made (MAKES). */
static const unsigned short made_from[HOOK_ALL - HOOK_COUNT] = {
#define MAKES(symbol, kind_) [HOOK_##symbol##_##kind_ - HOOK_COUNT] = HOOK_##symbol,
#include "interpose/dispatch/hooks.def"
};

static atomic_bool is_started;

/* Finds hooks by name: a hash table of 1 + the number of the hook, 0 for an empty slot. The first
 * lookup fills it, since most processes look nothing up. */
enum { NAME_SLOTS = 2 * HOOK_COUNT + 1 };
static _Atomic(unsigned short) by_name[NAME_SLOTS];
static atomic_bool is_indexed;

/* Returns the index of the kind NAME if it is a kind of objects; otherwise 0. */
static unsigned char object_number(const char *name)
{
	const struct kind *kind = strchr(name, '/') ? kind_find(name, strlen(name)) : NULL;

	return kind ? (unsigned char)(kind - kinds) : 0;
}

static void start_api(enum api api)
{
	const char *kind = NULL; /* most rows have the kind of the row before */
	unsigned char object = 0;

	for (int i = ranges[api].first_hook; i < ranges[api].end_hook; i++) {
		if (hooks[i].kind != kind)
			object = object_number(kind = hooks[i].kind);
		hooks[i].api = api;
		hooks[i].object = object;
		hooks[i].wrapper = apis[api]->wrappers[i - ranges[api].first_hook];
	}
	for (int i = ranges[api].first_used; i < ranges[api].end_used; i++)
		used[i].api = api;
}

__attribute__((constructor(101))) static void hooks_start(void)
{
	if (atomic_load_explicit(&is_started, memory_order_acquire))
		return;
	for (int api = 0; api < API_COUNT; api++)
		start_api((enum api)api);
	for (int i = HOOK_COUNT; i < HOOK_ALL; i++)
		hooks[i].api = hooks[made_from[i - HOOK_COUNT]].api;
	atomic_store_explicit(&is_started, true, memory_order_release);
}

/* Returns the slot of NAME, or the empty slot where it belongs. */
static _Atomic(unsigned short) *slot_of(const char *name)
{
	unsigned int at = 0;
	unsigned short number;

	for (const char *c = name; *c; c++)
		at = at * 33 + (unsigned char)*c;
	for (;; at++) {
		number = atomic_load_explicit(&by_name[at % NAME_SLOTS], memory_order_relaxed);
		if (!number || strcmp(hooks[number - 1].name, name) == 0)
			return &by_name[at % NAME_SLOTS];
	}
}

/* Several threads may fill the table at the same time: a filled slot never changes, and a thread
 * that loses a slot to another name searches again. */
static void index_names(void)
{
	hooks_start(); /* a lookup may come before the constructor */
	for (unsigned short i = 0; i < HOOK_COUNT; i++) {
		const unsigned short number = (unsigned short)(i + 1);
		unsigned short found;

		do
			found = 0;
		while (!atomic_compare_exchange_strong(slot_of(hooks[i].name), &found, number) &&
		       found != number);
	}
	atomic_store_explicit(&is_indexed, true, memory_order_release);
}

struct hook *hook_find(const char *name)
{
	unsigned short number;

	if (!atomic_load_explicit(&is_indexed, memory_order_acquire))
		index_names();
	number = atomic_load_explicit(slot_of(name), memory_order_relaxed);
	return number ? &hooks[number - 1] : NULL;
}

bool hook_is_off(const struct hook *hook)
{
	return atomic_load_explicit(&recording_is_off, memory_order_relaxed) ||
	       hook_is_unneeded(hook);
}

bool hook_is_unneeded(const struct hook *hook)
{
	if (!config_is_read || hook->is_guarded)
		return false;
	return hook_is_in(hook, GROUP_GUARD) ||
	       (config.pool == OPTION_POOL_OFF &&
		((hook_is_in(hook, GROUP_POOL) &&
		  !(config.guard & (GUARD_PATTERNS | GUARD_PAGES))) ||
		 (hook_is_in(hook, GROUP_SUBMITS) && !hook_is_in(hook, GROUP_LAUNCHES))));
}

void hooks_guard(void)
{
	if (!config.guard)
		return;
	hooks_start();
	for (int i = 0; i < HOOK_COUNT; i++) {
		struct hook *hook = &hooks[i];
		const struct guarded_wrapper *guarded = apis[hook->api]->guarded;

		if (guarded)
			guarded += i - ranges[hook->api].first_hook;
		if (!guarded || !(guarded->levels & (unsigned int)config.guard))
			continue;
		hook->is_guarded = true;
		hook->wrapper = guarded->wrapper;
		atomic_store(&hook->direct, NULL);
		if (slots_has(hook))
			slots_wrap_again(hook);
	}
	callers_forget();
}

void *(*hook_prepared)(struct hook *hook, void *real);

void *hook_when_off(struct hook *hook, void *real)
{
	return recording_is_prepared && hook_prepared && real && !hook_is_unneeded(hook)
		       ? hook_prepared(hook, real) : real;
}

struct hook *hook_of_driver(enum api api, const void *address)
{
	for (int i = ranges[api].first_hook; i < ranges[api].end_hook; i++)
		if (atomic_load_explicit(&hooks[i].driver, memory_order_acquire) == address)
			return &hooks[i];
	return NULL;
}

struct hook *hook_making(const struct hook *hook, const char *kind)
{
	for (int i = HOOK_COUNT; i < HOOK_ALL; i++)
		if (strcmp(hooks[i].name, hook->name) == 0 && strcmp(hooks[i].kind, kind) == 0)
			return &hooks[i];
	return NULL;
}

void hooks_forget_refs(void)
{
	for (int i = 0; i < HOOK_TOTAL; i++) {
		atomic_store(&hooks[i].name_ref, 0);
		atomic_store(&hooks[i].kind_ref, 0);
	}
}
