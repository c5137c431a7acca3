/* SPDX-License-Identifier: MIT
 *
 * Finds real functions: the next in the global scope, or by name in the loaded driver. Never loads
 * a driver that the application did not load. Calls the loader, so lookups may use only
 * resolve_driver_is_loaded().
 */
#include "interpose/dispatch/resolve.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <string.h>

#include "interpose/base/fork_guard.h"
#include "interpose/base/own_stack.h"
#include "interpose/dispatch/api.h"
#include "interpose/dispatch/coverage.h"
#include "interpose/dispatch/loader.h"

/* Restored by inside_leave(), and cleared by record_calls_end() if a call was left without a
 * return. */
__thread struct inside thread_inside;

__thread struct linked_call linked_call;

struct route linked_store(const struct hook *hook, void *real)
{
	linked_call = (struct linked_call){ hook, real, NULL };
	return (struct route){ NULL, true, NULL };
}

struct search {
	enum api api;
	bool found;
	char path[PATH_MAX];
};

static int search_driver(struct dl_phdr_info *info, size_t size, void *data)
{
	struct search *search = data;
	size_t length = info->dlpi_name ? strlen(info->dlpi_name) : 0;

	(void)size;
	if (length == 0 || length >= sizeof(search->path) ||
	    !lookup_is_driver_name(search->api, info->dlpi_name))
		return 0;
	memcpy(search->path, info->dlpi_name, length + 1);
	search->found = true;
	return 1;
}

static bool find_driver(enum api api, struct search *ret)
{
	ret->api = api;
	ret->found = false;
	fork_guard_iterate(search_driver, ret);
	return ret->found;
}

bool resolve_driver_is_loaded(enum api api)
{
	struct search search;

	return find_driver(api, &search);
}

static int has_prefix(struct dl_phdr_info *info, size_t size, void *data)
{
	const char *name = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;

	(void)size;
	return name && strncmp(name + 1, data, strlen(data)) == 0;
}

bool resolve_is_loaded(const char *prefix)
{
	return fork_guard_iterate(has_prefix, (void *)(uintptr_t)prefix) != 0;
}

void *resolve_in(const char *path, const char *name)
{
	struct dlerror_state state;
	void *handle, *found = NULL;

	dlerror_take(&state);
	handle = lookup_loaded(path);
	if (handle) {
		found = lookup_real(handle, name);
		lookup_close(handle);
	}
	dlerror_give_back(&state);
	return found && !resolve_is_ours(found) ? found : NULL;
}

/* Returns the function NAME from the driver's own library. The library may be outside the global
 * scope, where RTLD_NEXT does not find it. */
static void *in_driver(enum api api, const char *name)
{
	struct search search;

	return find_driver(api, &search) ? resolve_in(search.path, name) : NULL;
}

static void cache_pointer(_Atomic(void *) *slot, void *pointer)
{
	void *none = NULL;

	atomic_compare_exchange_strong(slot, &none, pointer);
}

/* A lookup in the loader. It runs on gpuleak's own stack, because the path and the loader's frames
 * are too large for a small stack. */
struct driver_lookup {
	enum api api;
	const char *name;
	void *answer;
};

static void in_driver_aside(void *data)
{
	struct driver_lookup *lookup = data;

	lookup->answer = in_driver(lookup->api, lookup->name);
}

static void *find_in_driver(enum api api, const char *name)
{
	struct driver_lookup lookup = { api, name, NULL };

	aside(in_driver_aside, &lookup);
	return lookup.answer;
}

struct route resolve_driver_slowly(struct hook *hook)
{
	void *found = find_in_driver(hook->api, hook->name);

	if (found)
		cache_pointer(&hook->driver, found);
	/* for OpenCL use only `found`: the first loader may have been unloaded */
	if (!found || !slots_has(hook))
		found = atomic_load(&hook->driver);
	return (struct route){ found, found != NULL };
}

static _Atomic(void *) behind[HOOK_COUNT]; /* of guarded hooks: what `direct` would be */

/* Returns the place that has the function which a linked call of HOOK would reach. */
static _Atomic(void *) *direct_of(struct hook *hook)
{
	return hook->is_guarded ? &behind[hook - hooks] : &hook->direct;
}

/* Returns true if SLOT pointed into a module that is not loaded any more. */
static bool forget_unloaded(_Atomic(void *) *slot)
{
	void *known = atomic_load(slot);

	return known && !module_of(known) && atomic_compare_exchange_strong(slot, &known, NULL);
}

void resolve_forget_unloaded(void)
{
	for (int id = 0; id < HOOK_COUNT; id++) {
		forget_unloaded(&hooks[id].driver);
		if (forget_unloaded(direct_of(&hooks[id])))
			atomic_store(&hooks[id].look_alike, false);
	}
	for (int id = 0; id < USED_COUNT; id++)
		forget_unloaded(&used[id].driver);
}

/* Records that ADDRESS belongs to a vendor's OpenCL implementation that is used without a loader.
 * An implementation exports the symbol that loaders look up. */
static void look_for_vendor(enum api api, const void *address)
{
	const char *module = lookup_module_name(address);
	struct dlerror_state state;
	void *handle;

	if (!apis[api]->vendor_symbol || !module || !module[0])
		return;
	dlerror_take(&state);
	handle = lookup_loaded(module);
	if (handle) {
		if (lookup_real(handle, apis[api]->vendor_symbol))
			observation_record(OBSERVED_NO_LOADER, apis[api]->title, module, NULL);
		lookup_close(handle);
	}
	dlerror_give_back(&state);
}

/* Finds the function that follows gpuleak's export. It may be the driver's, another interposer's,
 * or an unrelated function of the same name. If no driver is loaded, it is an unrelated function,
 * whose calls are not recorded. */
static struct route find_direct(struct hook *hook)
{
	void *next = resolve_next(hook->name);
	struct route route;

	coverage_called(hook->api);
	if (!next) {
		route = resolve_driver_slowly(hook);
		if (route.real)
			cache_pointer(direct_of(hook), route.real);
		return route;
	}
	if (!lookup_in_driver(hook->api, next) && !resolve_driver_is_loaded(hook->api)) {
		atomic_store(&hook->look_alike, true);
		look_for_vendor(hook->api, next);
	}
	cache_pointer(direct_of(hook), next);
	return (struct route){ next, !atomic_load(&hook->look_alike) };
}

struct direct {
	struct hook *hook;
	struct route route;
};

static void find_direct_aside(void *data)
{
	struct direct *direct = data;

	direct->route = find_direct(direct->hook);
}

struct route resolve_direct_slowly(struct hook *hook)
{
	struct direct direct = { hook, { atomic_load(direct_of(hook)), false, NULL } };

	if (direct.route.real)
		direct.route.record = !atomic_load(&hook->look_alike);
	else
		aside(find_direct_aside, &direct);
	return hook->is_guarded && direct.route.record
		       ? linked_store(hook, direct.route.real) : direct.route;
}

void *resolve_used_slowly(enum used_id id)
{
	void *known = find_in_driver(used[id].api, used[id].name);

	if (known)
		cache_pointer(&used[id].driver, known);
	return known;
}

void resolve_all(enum api api)
{
	for (int id = 0; id < HOOK_COUNT; id++)
		if (hooks[id].api == api && !hook_is_unneeded(&hooks[id]) &&
		    !atomic_load(&hooks[id].driver))
			resolve_driver_slowly(&hooks[id]);
}

void *resolve_next(const char *name)
{
	struct dlerror_state state;
	void *found;

	dlerror_take(&state);
	found = lookup_real(RTLD_NEXT, name);
	dlerror_give_back(&state);
	return found;
}

void *resolve_export(const char *name)
{
	const struct link_map *us = module_of((const void *)resolve_export);

	return resolve_next(name) ? lookup_real((void *)(uintptr_t)us, name) : NULL;
}

void *resolve_of_program(const char *name)
{
	const struct link_map *us = module_of((const void *)resolve_of_program);
	void *libc, *found = NULL;
	Lmid_t space;

	if (!us || dlinfo((void *)us, RTLD_DI_LMID, &space) < 0 || space == LM_ID_BASE)
		return NULL;
	libc = dlmopen(LM_ID_BASE, "libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
	if (libc) {
		found = lookup_real(libc, name);
		lookup_close(libc);
	}
	return found;
}
