/* SPDX-License-Identifier: MIT
 *
 * The table of hooks, generated from the rows of hooks.def, and the search in it. The addresses of
 * wrappers come from each API's struct api_ops.
 */
#include "interpose/dispatch/hooks.h"

#include <string.h>

#include "interpose/base/config.h"
#include "interpose/dispatch/api.h"
#include "ledger/kind_table.h"
#include "ledger/shared.h"

struct hook hooks[HOOK_ALL] = {
#define HOOK(symbol, returns, parameters, arguments, verb, made, kind_, key, size)          \
	[HOOK_##symbol] = { .name = #symbol, .kind = kind_ },
#define HAND(symbol, returns, parameters, ...)                                              \
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

/* Hooks sorted by name, for lookups. A constructor sorts them, or the first lookup if that comes
 * earlier. */
static unsigned short sorted[HOOK_COUNT];
static bool is_sorted;

/* Returns the index at which NAME belongs among the first COUNT elements of `sorted`. */
static int place_of(const char *name, int count)
{
	int low = 0;

	while (low < count) {
		int middle = (low + count) / 2;

		if (strcmp(hooks[sorted[middle]].name, name) < 0)
			low = middle + 1;
		else
			count = middle;
	}
	return low;
}

static unsigned char object_number(const char *kind)
{
	unsigned char number = 0;

	if (!strchr(kind, '/'))
		return 0;
	for (const struct kind *known = kinds; known->name[0]; known++) {
		number += strchr(known->name, '/') != NULL;
		if (strcmp(known->name, kind) == 0)
			return number;
	}
	return 0;
}

static void start_api(enum api api)
{
	for (int i = ranges[api].first_hook; i < ranges[api].end_hook; i++) {
		hooks[i].api = api;
		hooks[i].object = object_number(hooks[i].kind);
		hooks[i].wrapper = apis[api]->wrappers[i - ranges[api].first_hook];
	}
	for (int i = ranges[api].first_used; i < ranges[api].end_used; i++)
		used[i].api = api;
}

__attribute__((constructor(101))) static void hooks_start(void)
{
	for (int api = 0; api < API_COUNT; api++)
		start_api((enum api)api);
	for (unsigned short i = 0; i < HOOK_COUNT; i++) {
		int at = place_of(hooks[i].name, i);

		memmove(&sorted[at + 1], &sorted[at], (size_t)(i - at) * sizeof(sorted[0]));
		sorted[at] = i;
	}
	for (int i = HOOK_COUNT; i < HOOK_ALL; i++)
		hooks[i].api = hooks[sorted[place_of(hooks[i].name, HOOK_COUNT)]].api;
	atomic_store_explicit(&SHARED(is_sorted), true, memory_order_release);
}

struct hook *hook_find(const char *name)
{
	int at;

	if (!atomic_load_explicit(&SHARED(is_sorted), memory_order_acquire))
		hooks_start();
	at = place_of(name, HOOK_COUNT);
	return at < HOOK_COUNT && strcmp(hooks[sorted[at]].name, name) == 0 ? &hooks[sorted[at]]
									    : NULL;
}

bool hook_is_off(const struct hook *hook)
{
	return hook_is_for_pool(hook) && config_is_read && config.pool == OPTION_POOL_OFF;
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
	for (int i = 0; i < HOOK_ALL; i++) {
		atomic_store(&hooks[i].name_ref, 0);
		atomic_store(&hooks[i].kind_ref, 0);
	}
}
