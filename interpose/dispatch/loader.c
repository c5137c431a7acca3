/* SPDX-License-Identifier: MIT
 *
 * Finds the real dlsym, and recognizes drivers by their file names. loader.h states which
 * functions are safe in a lookup.
 */
#include "interpose/dispatch/loader.h"

#include <dlfcn.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "interpose/dispatch/api.h"
#include "interpose/dispatch/find_module.h"
#include "interpose/dispatch/scope.h"
#include "ledger/shared.h"

lookup_dlsym *lookup_real_dlsym;

/* Returns libc's function. dlvsym() with a version skips the unversioned ones of other preloaded
 * libraries. */
static void *in_libc(const char *name)
{
	static const char *const versions[] = { "GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5" };
	void *found = NULL;

	for (size_t i = 0; !found && i < sizeof(versions) / sizeof(versions[0]); i++)
		found = dlvsym(RTLD_NEXT, name, versions[i]);
	return found;
}

/* Libc's dlsym, called from here with RTLD_NEXT, finds the dlsym of the next preloaded library. */
void lookup_start(void)
{
	lookup_dlsym *libc_dlsym = (lookup_dlsym *)in_libc("dlsym"), *next;

	if (!libc_dlsym)
		return;
	module_start();
	next = (lookup_dlsym *)libc_dlsym(RTLD_NEXT, "dlsym");
	shared_publish(lookup_real_dlsym, next ? next : libc_dlsym);
	dlerror(); /* clear the message of a version that does not exist */
}

void *lookup_real(void *handle, const char *name)
{
	if (!shared_load_acquire(lookup_real_dlsym))
		lookup_start();
	return lookup_real_dlsym ? lookup_real_dlsym(handle, name) : NULL;
}

void *lookup_loaded(const char *path)
{
	static _Atomic(void *) libc_dlopen;
	void *open = atomic_load(&libc_dlopen);

	if (!open)
		atomic_store(&libc_dlopen, open = in_libc("dlopen"));
	return open ? ((void *(*)(const char *, int))open)(path, RTLD_LAZY | RTLD_NOLOAD) : NULL;
}

void lookup_close(void *handle)
{
	int (*real)(void *) = (int (*)(void *))lookup_real(RTLD_NEXT, "dlclose");

	if (real)
		real(handle);
}

static bool begins_with(const char *path, const char *start)
{
	return strncmp(basename(path), start, strlen(start)) == 0;
}

bool lookup_is_driver_name(enum api api, const char *path)
{
	for (const char *const *library = apis[api]->libraries; *library; library++)
		if (begins_with(path, *library))
			return true;
	return false;
}

enum api lookup_driver_named(const char *path)
{
	enum api api = 0;

	while (api < API_COUNT && !lookup_is_driver_name(api, path))
		api++;
	return api;
}

bool lookup_works_for_driver(const char *path)
{
	for (int i = 0; i < API_COUNT; i++)
		if (apis[i]->internal && begins_with(path, apis[i]->internal))
			return true;
	return lookup_driver_named(path) < API_COUNT;
}

static bool is_of_driver(const void *address)
{
	const struct link_map *map = module_of(address);

	/* "" is the program itself */
	if (!map || !map->l_name || !map->l_name[0] || resolve_is_ours(address))
		return false;
	if (lookup_works_for_driver(map->l_name))
		return true;
	for (int i = 0; i < API_COUNT; i++)
		if (apis[i]->driver_symbol && scope_exports(map, apis[i]->driver_symbol))
			return true;
	return false;
}

/* Caches the last answer, because a library registers many exit handlers in turn: the address, the
 * low bits of the epoch of the loaded modules, and the answer. */
bool lookup_is_of_driver(const void *address)
{
	static _Atomic uint64_t last;
	uint64_t key = ((uint64_t)(uintptr_t)address << 7 | (module_epoch() & 0x7f)) << 1;
	uint64_t known = atomic_load_explicit(&last, memory_order_relaxed);

	if ((known & ~UINT64_C(1)) != key) {
		known = key | is_of_driver(address);
		atomic_store_explicit(&last, known, memory_order_relaxed);
	}
	return known & 1;
}

const char *lookup_module_name(const void *address)
{
	const struct link_map *map = module_of(address);

	return map ? map->l_name : NULL;
}

bool lookup_in_driver(enum api api, const void *address)
{
	const struct link_map *map = module_of(address);

	return map && map->l_name && lookup_is_driver_name(api, map->l_name);
}

/* Defined by the linker: the start of libgpuleak's ELF header and the end of its data. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));

bool resolve_is_ours(const void *address)
{
	return (uintptr_t)address >= (uintptr_t)__ehdr_start &&
	       (uintptr_t)address < (uintptr_t)_end;
}
