/* SPDX-License-Identifier: MIT
 *
 * Decides for each dlsym call whether the answer is one of our wrappers. Runs inside
 * other people's lookups, often under the loader's lock and before constructors: no
 * malloc, no log, no lock, no change of dlerror beyond what the real call does.
 */
#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include "interpose/dispatch/api.h"
#include "interpose/dispatch/classify.h"
#include "interpose/dispatch/coverage.h"
#include "interpose/dispatch/loader.h"
#include "interpose/dispatch/resolve.h"
#include "interpose/base/submit_epoch.h"

struct answer {
	void *pointer;
	long answered; /* 0: jump to the real dlsym with the caller's own registers */
};
struct answer lookup_before(void *handle, const char *name, const void *caller)
	__attribute__((visibility("hidden")));

/* The driver's own lookups (WSL's libcuda asks itself for cuInit), and those of NVIDIA's
 * other driver libraries, which allocate on the driver's behalf and not on anyone's. */
static bool asked_by_driver(const void *caller)
{
	const struct link_map *map = lookup_module(caller);

	return map && map->l_name && lookup_works_for_driver(map->l_name);
}

/* Our export OURS was found in the global scope. It stands for what comes after it there:
 * if nothing does, the lookup fails, as it would without us (only that the message names
 * this library where it would name the caller's). */
static struct answer in_global_scope(void *ours, const char *name)
{
	return (struct answer){ lookup_real(RTLD_NEXT, name) ? ours : NULL, 1 };
}

/* Who asks for the lookup itself goes on by that. */
static void note_lookup(const struct hook *hook, const void *caller)
{
	static const enum hook_id lookups[] = {
		HOOK_cuGetProcAddress, HOOK_cuGetProcAddress_v2, HOOK_clGetExtensionFunctionAddress,
		HOOK_clGetExtensionFunctionAddressForPlatform,
	};

	for (size_t i = 0; i < sizeof(lookups) / sizeof(lookups[0]); i++)
		if (hook == &hooks[lookups[i]])
			return;
	coverage_route(FACT_DLSYM, hook->api, caller);
}

static struct answer in_default_scope(const char *name, const void *caller, struct hook *hook)
{
	const struct link_map *map = lookup_module(caller);
	void *found = lookup_real(RTLD_DEFAULT, name);

	/* A library that was opened with a scope of its own may have the driver in that. */
	if (!resolve_is_ours(found) ||
	    (map && map->l_name && map->l_name[0] && resolve_driver_is_loaded(hook->api)))
		return (struct answer){ NULL, 0 };
	if (hook_is_off(hook))
		return (struct answer){ lookup_real(RTLD_NEXT, name), 1 };
	note_lookup(hook, caller);
	return in_global_scope(found, name);
}

/* The program's own next one is our export, which again stands for what comes after. Who
 * else asks keeps his place in the order, and ours is not asked for. */
static struct answer after_caller(const char *name, const void *caller)
{
	const struct link_map *map = lookup_module(caller);

	if (map && map->l_name && !map->l_name[0] && !lookup_real(RTLD_NEXT, name))
		return (struct answer){ NULL, 1 };
	return (struct answer){ NULL, 0 };
}

/* Of a library that is no loader: a vendor's own shows by what loaders ask it for. The last
 * lookup is the application's again, with what dlerror() says after it. */
static void look_for_vendor(void *handle, const char *name, const void *found, enum api api)
{
	if (!apis[api]->vendor_symbol)
		return;
	if (lookup_real_dlsym(handle, apis[api]->vendor_symbol))
		fact_note(FACT_NO_LOADER, apis[api]->title, lookup_module_name(found), NULL);
	lookup_real_dlsym(handle, name);
}

static struct answer in_handle(void *handle, const char *name, const void *caller,
			       struct hook *hook)
{
	void *found = lookup_real_dlsym(handle, name);
	void *none = NULL;

	if (!found)
		return (struct answer){ NULL, 1 };
	if (hook_is_off(hook) && resolve_is_ours(found))
		found = lookup_real(RTLD_NEXT, name);
	if (hook_is_off(hook))
		return (struct answer){ found, 1 };
	if (resolve_is_ours(found)) { /* the handle of the program itself: its global scope */
		note_lookup(hook, caller);
		return in_global_scope(found, name);
	}
	if (asked_by_driver(caller)) {
		if (hook_submits(hook) && !lookup_in_driver(hook->api, caller))
			submits_unknown();
		return (struct answer){ found, 1 };
	}
	if (!lookup_in_driver(hook->api, found)) {
		look_for_vendor(handle, name, found, hook->api);
		return (struct answer){ found, 1 };
	}
	note_lookup(hook, caller);
	atomic_compare_exchange_strong(&hook->driver, &none, found);
	if (slots_has(hook)) /* there may be several drivers */
		return (struct answer){ slots_give(hook, found), 1 };
	return (struct answer){ hook->wrapper, 1 };
}

/* A name of the APIs without a row: nothing changes for who asks, but it is noted if it may
 * have to do with memory, or submit work that we don't see, and is a driver's. */
static struct answer without_hook(void *handle, const char *name, const void *caller)
{
	enum api api = api_of(name);
	const char *reason;
	void *found;

	if (handle == RTLD_NEXT ||
	    (class_of(name, &reason) == CLASS_NO_MEMORY && !class_submits(name)))
		return (struct answer){ NULL, 0 };
	found = lookup_real_dlsym(handle, name);
	if (found && lookup_in_driver(api, found) && !asked_by_driver(caller))
		coverage_saw(name, caller);
	return (struct answer){ found, handle != RTLD_DEFAULT };
}

struct answer lookup_before(void *handle, const char *name, const void *caller)
{
	struct hook *hook;

	if (!__atomic_load_n(&lookup_real_dlsym, __ATOMIC_ACQUIRE))
		lookup_start();
	if (!name || api_of(name) == API_COUNT)
		return (struct answer){ NULL, 0 };
	hook = hook_find(name);
	if (!hook)
		return without_hook(handle, name, caller);
	if (handle == RTLD_NEXT)
		return after_caller(name, caller);
	if (handle != RTLD_DEFAULT)
		return in_handle(handle, name, caller, hook);
	return in_default_scope(name, caller, hook);
}
