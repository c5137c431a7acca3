/* SPDX-License-Identifier: MIT
 *
 * Decides for each dlsym() call whether to return a wrapper of gpuleak. Runs inside the
 * application's lookups, often under the loader's lock and before constructors. So it uses no
 * malloc, no log and no lock, and changes dlerror() only as the real call does.
 */
#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include "interpose/dispatch/api.h"
#include "interpose/dispatch/coverage.h"
#include "interpose/dispatch/find_module.h"
#include "interpose/dispatch/loader.h"
#include "interpose/dispatch/resolve.h"
#include "interpose/base/submit_epoch.h"
#include "interpose/base/upcalls.h"
#include "ledger/shared.h"

struct answer {
	void *pointer;
	long answered; /* 0: jump to the real dlsym with the caller's arguments */
};
struct answer lookup_before(void *handle, const char *name, const void *caller)
	__attribute__((visibility("hidden")));

/* Returns true if CALLER is a driver, or one of NVIDIA's other driver libraries. WSL's libcuda
 * looks up its own cuInit, for example. The other libraries allocate on the driver's behalf. */
static bool asked_by_driver(const void *caller)
{
	const struct link_map *map = module_of(caller);

	return map && map->l_name && lookup_works_for_driver(map->l_name);
}

/* Handles a lookup that found gpuleak's export OURS in the global scope. Returns OURS only if a
 * real function follows it there. Otherwise the lookup fails, as it would without gpuleak. (Only
 * the error message names this library instead of the caller's.) */
static struct answer in_global_scope(void *ours, const char *name)
{
	return (struct answer){ lookup_real(RTLD_NEXT, name) ? ours : NULL, 1 };
}

/* Records the route of a lookup. Skips the APIs' own lookup functions: a caller that gets one will
 * look up the real functions through it. */
static void note_lookup(const struct hook *hook, const void *caller)
{
	if (!hook_has(hook, TRAIT_LOOKS_UP) && apis[hook->api]->libraries[0])
		coverage_route(OBSERVED_DLSYM, hook->api, caller);
}

static struct answer in_default_scope(const char *name, const void *caller, struct hook *hook)
{
	const struct link_map *map = module_of(caller);
	void *found = lookup_real(RTLD_DEFAULT, name);

	/* If the caller is a library that was opened with its own scope, that scope may contain the
	 * driver. */
	if (!resolve_is_ours(found) ||
	    (map && map->l_name && map->l_name[0] &&
	     (!apis[hook->api]->libraries[0] || resolve_driver_is_loaded(hook->api))))
		return (struct answer){ NULL, 0 };
	if (hook_is_off(hook))
		return (struct answer){ hook_when_off(hook, lookup_real(RTLD_NEXT, name)), 1 };
	note_lookup(hook, caller);
	return in_global_scope(found, name);
}

/* Handles RTLD_NEXT. For the program itself the next function is gpuleak's export, which counts
 * only if a real function follows it. For other callers the real dlsym decides by their place in
 * the search order. */
static struct answer after_caller(const char *name, const void *caller)
{
	const struct link_map *map = module_of(caller);

	if (map && map->l_name && !map->l_name[0] && !lookup_real(RTLD_NEXT, name))
		return (struct answer){ NULL, 1 };
	return (struct answer){ NULL, 0 };
}

/* Records that FOUND belongs to a vendor's OpenCL implementation that is used without a loader. An
 * implementation exports the symbol that loaders look up. Then repeats the application's lookup, so
 * that dlerror() has the message of that lookup. */
static void look_for_vendor(void *handle, const char *name, const void *found, enum api api)
{
	if (!apis[api]->vendor_symbol)
		return;
	if (lookup_real_dlsym(handle, apis[api]->vendor_symbol))
		observation_record(OBSERVED_NO_LOADER, apis[api]->title, lookup_module_name(found),
				   NULL);
	lookup_real_dlsym(handle, name);
}

/* Returns true if CALLER's library has the function NAME itself, behind gpuleak's export in the
 * search order. A linked call of the application has then passed a wrapper already. */
static bool asked_from_behind(const char *name, const void *caller)
{
	const void *next = lookup_real(RTLD_NEXT, name);

	return next && module_of(next) == module_of(caller);
}

static struct answer in_handle(void *handle, const char *name, const void *caller,
			       struct hook *hook)
{
	bool inner = asked_from_behind(name, caller) || asked_by_driver(caller);
	void *found = lookup_real_dlsym(handle, name);
	void *none = NULL;

	if (!found)
		return (struct answer){ NULL, 1 };
	if (hook_is_off(hook) && resolve_is_ours(found))
		found = lookup_real(RTLD_NEXT, name);
	if (hook_is_off(hook))
		return (struct answer){ lookup_in_driver(hook->api, found) && !inner
						? hook_when_off(hook, found) : found, 1 };
	if (resolve_is_ours(found)) { /* HANDLE is the program's, so this is its global scope */
		note_lookup(hook, caller);
		return in_global_scope(found, name);
	}
	if (inner) {
		if (hook_is_in(hook, GROUP_SUBMITS) && !lookup_in_driver(hook->api, caller))
			submits_unknown();
		return (struct answer){ found, 1 };
	}
	if (!lookup_in_driver(hook->api, found)) {
		look_for_vendor(handle, name, found, hook->api);
		return (struct answer){ found, 1 };
	}
	note_lookup(hook, caller);
	atomic_compare_exchange_strong(&hook->driver, &none, found);
	if (slots_has(hook)) /* the process may have several drivers */
		return (struct answer){ slots_give(hook, found), 1 };
	return (struct answer){ hook->wrapper, 1 };
}

/* Handles a function of an API that has no row. The caller gets the same result as without gpuleak.
 * A driver's function is recorded if it may have to do with memory, or may submit work that gpuleak
 * does not see. */
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

/* Handles NVTX's lookups of the injection of a tool, by the handle of the tool's library. */
static const char injection[] = "InitializeInjectionNvtx";
static struct answer in_injection(void *handle, const char *name)
{
	void *found = lookup_real_dlsym(handle, name);

	if (found && !resolve_is_ours(found))
		found = upcalls.nvtx_found(name, found);
	return (struct answer){ found, 1 };
}

/* A profiler's dlopen() (ncu's, for example) answers a driver's name with the first library of the
 * global scope that has the driver's functions. Returns true if HANDLE is thus gpuleak's own, and
 * NAME, which has no wrapper here, can only be in the libraries behind. */
static bool is_behind_us(void *handle, const char *name)
{
	return handle == (const void *)module_of((const void *)is_behind_us) && name &&
	       !lookup_real_dlsym(handle, name);
}

struct answer lookup_before(void *handle, const char *name, const void *caller)
{
	struct hook *hook;

	if (!shared_load_acquire(lookup_real_dlsym))
		lookup_start();
	/* The caller has opened a library, and now calls the loader on it: Python does so after
	 * each import of an extension. */
	if (handle != RTLD_NEXT && handle != RTLD_DEFAULT && !resolve_is_ours(caller))
		apis_libraries_changed();
	if (name && handle != RTLD_NEXT && handle != RTLD_DEFAULT &&
	    strncmp(name, injection, sizeof(injection) - 1) == 0)
		return in_injection(handle, name);
	if (is_behind_us(handle, name))
		return (struct answer){ lookup_real(RTLD_NEXT, name), 1 };
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
