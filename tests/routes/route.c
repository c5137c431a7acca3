/* SPDX-License-Identifier: MIT
 *
 * Reaches the driver by one route and does cu.h's work. Built twice: linked with libcuda
 * (-DLINKED), and not. The route is the first argument.
 */
#include <dlfcn.h>
#include <string.h>

#include "cu.h"

static void *open_driver(int flags)
{
	void *handle = dlopen("libcuda.so.1", RTLD_NOW | flags);

	need(handle, "libcuda.so.1");
	return handle;
}

static void *find(void *handle, const char *name)
{
	void *found = dlsym(handle, name);

	need(found, name);
	return found;
}

static struct driver by_dlsym(void *handle)
{
	struct driver ret;

	*(void **)&ret.init = find(handle, "cuInit");
	*(void **)&ret.retain = find(handle, "cuDevicePrimaryCtxRetain");
	*(void **)&ret.set_current = find(handle, "cuCtxSetCurrent");
	*(void **)&ret.alloc = find(handle, "cuMemAlloc_v2");
	*(void **)&ret.free = find(handle, "cuMemFree_v2");
	return ret;
}

/* Exactly one of the two resolvers is used. */
struct resolver {
	resolve4 *four;
	resolve5 *five;
	int version;
	uint64_t flags;
	int without_status;
};

static void *ask(const struct resolver *resolver, const char *name, int version)
{
	void *found = NULL;
	int status = 77;

	if (resolver->four) {
		must(resolver->four(name, &found, version, resolver->flags), name);
	} else if (resolver->without_status) {
		must(resolver->five(name, &found, version, resolver->flags, NULL), name);
	} else {
		must(resolver->five(name, &found, version, resolver->flags, &status), name);
		must(status, "status");
	}
	need(found, name);
	return found;
}

static struct driver by_resolver(const struct resolver *resolver)
{
	int version = resolver->version;
	struct driver ret;

	*(void **)&ret.init = ask(resolver, "cuInit", version);
	*(void **)&ret.retain = ask(resolver, "cuDevicePrimaryCtxRetain",
				    version < 7000 && version >= 0 ? 7000 : version);
	*(void **)&ret.set_current = ask(resolver, "cuCtxSetCurrent",
					 version < 4000 && version >= 0 ? 4000 : version);
	*(void **)&ret.alloc = ask(resolver, "cuMemAlloc", version);
	*(void **)&ret.free = ask(resolver, "cuMemFree", version);
	return ret;
}

/* A resolver asked for the resolver. What comes back must have the ABI of the version that
 * was asked for: the 4-argument one answers 500 for a name it does not know and leaves the
 * pointer alone, the 5-argument one 0, NULL and a status. */
static struct resolver self_lookup(const struct resolver *first, int version)
{
	struct resolver ret = { NULL, NULL, 12000, 0, 0 };
	void *found = ask(first, "cuGetProcAddress", version), *nothing = &ret;
	int status = 77;

	if (version >= 12000) {
		ret.five = (resolve5 *)found;
		must(ret.five("cuNoSuchCall", &nothing, version, 0, &status), "unknown name");
		printf("5 arguments: pointer %s, status %d\n", nothing ? "kept" : "NULL", status);
	} else {
		ret.four = (resolve4 *)found;
		printf("4 arguments: %d, ", ret.four("cuNoSuchCall", &nothing, version, 0));
		printf("pointer %s\n", nothing == (void *)&ret ? "kept" : "changed");
	}
	return ret;
}

/* As libcudart 13 was seen to do it. */
static struct driver as_cudart(void)
{
	void *handle = open_driver(0), *found = NULL;
	struct resolver first = { NULL, NULL, 3020, 0, 1 }, own = first;

	*(void **)&first.five = find(handle, "cuGetProcAddress_v2");
	printf("probe %d\n", first.five("", &found, 0, 0, NULL));
	*(void **)&own.five = ask(&first, "cuGetProcAddress", 12000);
	return by_resolver(&own);
}

static struct driver as_old_cudart(void)
{
	void *handle = open_driver(0);
	struct resolver first = { NULL, NULL, 3020, 0, 0 }, own = first;

	*(void **)&first.four = find(handle, "cuGetProcAddress");
	*(void **)&own.four = ask(&first, "cuGetProcAddress", 11030);
	return by_resolver(&own);
}

static struct driver by_numbers(int arguments, int version, int flags)
{
	struct resolver resolver = { NULL, NULL, version, (uint64_t)flags, 0 };
	void *handle = open_driver(0);

	if (arguments == 4)
		*(void **)&resolver.four = find(handle, "cuGetProcAddress");
	else
		*(void **)&resolver.five = find(handle, "cuGetProcAddress_v2");
	return by_resolver(&resolver);
}

static struct driver by_self_lookup(int arguments, int version)
{
	struct resolver first = { NULL, NULL, 0, 0, 0 };
	void *handle = open_driver(0);

	if (arguments == 4)
		*(void **)&first.four = find(handle, "cuGetProcAddress");
	else
		*(void **)&first.five = find(handle, "cuGetProcAddress_v2");
	first = self_lookup(&first, version);
	return by_resolver(&first);
}

/* Version 2000 of cuMemAlloc and cuMemFree: 32-bit addresses and sizes. */
static void in_32_bits(void)
{
	struct resolver resolver = { NULL, NULL, 12000, 0, 0 };
	CUresult (*alloc)(CUdeviceptr_v1 *, unsigned int);
	CUresult (*release)(CUdeviceptr_v1);
	CUdeviceptr_v1 address[2] = { 0, 0xabcdef01 };
	struct driver driver;

	*(void **)&resolver.five = find(open_driver(0), "cuGetProcAddress_v2");
	driver = by_resolver(&resolver);
	start(&driver);
	*(void **)&alloc = ask(&resolver, "cuMemAlloc", 2000);
	*(void **)&release = ask(&resolver, "cuMemFree", 2000);
	must(alloc(address, LEAK_BYTES), "alloc");
	must(alloc(address, PAIR_BYTES), "alloc");
	must(release(address[0]), "free");
	printf("worked, %s\n", address[1] == 0xabcdef01 ? "32 bits written" : "64 bits written");
}

static void by_plugin(const char *path)
{
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	void (*plugin_work)(void);

	if (!handle)
		printf("%s\n", dlerror());
	need(handle, path);
	*(void **)&plugin_work = find(handle, "plugin_work");
	plugin_work();
}

#ifdef LINKED
static const struct driver linked = LINKED_DRIVER;
#endif

int main(int argc, char **argv)
{
	const char *route = argc > 1 ? argv[1] : "";
	int a = argc > 2 ? atoi(argv[2]) : 0, b = argc > 3 ? atoi(argv[3]) : 0;
	int c = argc > 4 ? atoi(argv[4]) : 0;
	struct driver driver = { 0 };

#ifdef LINKED
	if (strcmp(route, "linked") == 0)
		driver = linked;
	else if (strcmp(route, "default") == 0)
		driver = by_dlsym(RTLD_DEFAULT);
	else if (strcmp(route, "next") == 0)
		driver = by_dlsym(RTLD_NEXT);
	else if (strcmp(route, "self") == 0)
		driver = by_dlsym(dlopen(NULL, RTLD_NOW));
#else
	if (strcmp(route, "default") == 0 && open_driver(RTLD_GLOBAL))
		driver = by_dlsym(RTLD_DEFAULT);
	else if (strcmp(route, "self") == 0 && open_driver(RTLD_GLOBAL))
		driver = by_dlsym(dlopen(NULL, RTLD_NOW));
#endif
	else if (strcmp(route, "handle") == 0)
		driver = by_dlsym(open_driver(RTLD_LOCAL));
	else if (strcmp(route, "resolver") == 0)
		driver = by_numbers(a, b, c);
	else if (strcmp(route, "self-lookup") == 0)
		driver = by_self_lookup(a, b);
	else if (strcmp(route, "cudart") == 0)
		driver = as_cudart();
	else if (strcmp(route, "old-cudart") == 0)
		driver = as_old_cudart();
	else if (strcmp(route, "32") == 0)
		return in_32_bits(), 0;
	else if (strcmp(route, "plugin") == 0)
		return by_plugin(argv[2]), 0;
	else
		return 2;
	work(&driver);
	return 0;
}
