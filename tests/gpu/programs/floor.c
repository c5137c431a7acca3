/* SPDX-License-Identifier: MIT
 *
 * The least that a preload can cost which serves cuMemAlloc and cuMemFree: the block of that size
 * that was freed last is handed out again, without a record, a lock or a look whether work is
 * pending on it. Wrong for any program but one thread that uses one stream; a yardstick for
 * `tests/gpu/pool.sh ... turns`, where what a framework pays for its missing pool is told from
 * what gpuleak adds.
 *
 *   gcc -O2 -shared -fPIC -o floor.so floor.c; LD_PRELOAD=floor.so python3 cupy_loop.py none
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

enum { SLOTS = 4096, KEPT = 64 };
typedef unsigned long long address_t;
typedef int (*resolver)(const char *, void **, int, uint64_t, int *);

static struct { address_t address; size_t bytes; } slots[SLOTS]; /* by address: its size */
static struct { /* by size */
	address_t block[KEPT];
	unsigned int count;
	size_t bytes;
} kept[SLOTS];
static int (*real_alloc)(address_t *, size_t), (*real_free)(address_t);
static resolver real_resolver;

static unsigned int slot_of(uint64_t number)
{
	return (unsigned int)(number * 0x9e3779b97f4a7c15u >> 52);
}

static int floor_alloc(address_t *address, size_t bytes)
{
	unsigned int bin = slot_of(bytes), slot;
	int result;

	if (kept[bin].bytes == bytes && kept[bin].count) {
		*address = kept[bin].block[--kept[bin].count];
		return 0;
	}
	result = real_alloc(address, bytes);
	if (result)
		return result;
	slot = slot_of(*address);
	if (!slots[slot].address) {
		slots[slot].address = *address;
		slots[slot].bytes = bytes;
	}
	return 0;
}

static int floor_free(address_t address)
{
	unsigned int slot = slot_of(address), bin;

	if (!address || slots[slot].address != address)
		return real_free(address);
	bin = slot_of(slots[slot].bytes);
	if (!kept[bin].bytes)
		kept[bin].bytes = slots[slot].bytes;
	if (kept[bin].bytes == slots[slot].bytes && kept[bin].count < KEPT) {
		kept[bin].block[kept[bin].count++] = address;
		return 0;
	}
	slots[slot].address = 0;
	return real_free(address);
}

static int floor_resolver(const char *name, void **ret, int version, uint64_t flags, int *status)
{
	int result = real_resolver(name, ret, version, flags, status);

	if (result || !*ret)
		return result;
	if (!strcmp(name, "cuMemAlloc")) {
		real_alloc = (int (*)(address_t *, size_t))*ret;
		*ret = (void *)floor_alloc;
	} else if (!strcmp(name, "cuMemFree")) {
		real_free = (int (*)(address_t))*ret;
		*ret = (void *)floor_free;
	} else if (!strcmp(name, "cuGetProcAddress") && version >= 12000) {
		*ret = (void *)floor_resolver;
	}
	return 0;
}

/* cudart's way to the driver: dlsym of its resolver, and that one asked for all else. */
void *dlsym(void *handle, const char *name)
{
	static void *(*real)(void *, const char *);
	void *found;

	if (!real)
		real = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
	if (!real)
		real = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
	found = real(handle, name);
	if (found && !strcmp(name, "cuGetProcAddress_v2")) {
		real_resolver = (resolver)found;
		return (void *)floor_resolver;
	}
	return found;
}
