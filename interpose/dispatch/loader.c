/* SPDX-License-Identifier: MIT
 *
 * Asks the loader which module an address lies in, and reaches the real dlsym. Most of it may be
 * called in a lookup; loader.h says which.
 */
#include "interpose/dispatch/loader.h"

#include <dlfcn.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

lookup_dlsym *lookup_real_dlsym;

/* dlvsym skips other preloads' unversioned dlsym, so it finds libc's; libc's asked from
 * here for the next dlsym then finds the preload behind us, if any. */
void lookup_start(void)
{
	static const char *const versions[] = { "GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5" };
	lookup_dlsym *libc_dlsym = NULL, *next;

	for (size_t i = 0; !libc_dlsym && i < sizeof(versions) / sizeof(versions[0]); i++)
		libc_dlsym = (lookup_dlsym *)dlvsym(RTLD_NEXT, "dlsym", versions[i]);
	if (!libc_dlsym)
		return;
	next = (lookup_dlsym *)libc_dlsym(RTLD_NEXT, "dlsym");
	__atomic_store_n(&lookup_real_dlsym, next ? next : libc_dlsym, __ATOMIC_RELEASE);
	dlerror(); /* a version that is not there left its message */
}

void *lookup_real(void *handle, const char *name)
{
	if (!__atomic_load_n(&lookup_real_dlsym, __ATOMIC_ACQUIRE))
		lookup_start();
	return lookup_real_dlsym ? lookup_real_dlsym(handle, name) : NULL;
}

bool lookup_is_driver_name(enum api api, const char *path)
{
	const char *slash = strrchr(path, '/');
	const char *base = slash ? slash + 1 : path;

	switch (api) {
	case API_CUDA:
		return strncmp(base, "libcuda.so", 10) == 0 || strncmp(base, "libcuda-", 8) == 0;
	case API_OPENCL: /* wheels bring loaders named libOpenCL-cf4d6695.so.1.0.0 */
		return strncmp(base, "libOpenCL.so", 12) == 0 ||
		       strncmp(base, "libOpenCL-", 10) == 0;
	case API_COUNT:
		break;
	}
	return false;
}

const struct link_map *lookup_module(const void *address)
{
	struct dl_find_object object;

	if (_dl_find_object((void *)(uintptr_t)address, &object) < 0)
		return NULL;
	return object.dlfo_link_map;
}

const char *lookup_module_name(const void *address)
{
	const struct link_map *map = lookup_module(address);

	return map ? map->l_name : NULL;
}

bool lookup_in_driver(enum api api, const void *address)
{
	const struct link_map *map = lookup_module(address);

	return map && map->l_name && lookup_is_driver_name(api, map->l_name);
}

/* Set by the linker: the start of our ELF header and the end of our data. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));

bool resolve_is_ours(const void *address)
{
	return (uintptr_t)address >= (uintptr_t)__ehdr_start &&
	       (uintptr_t)address < (uintptr_t)_end;
}
