/* SPDX-License-Identifier: MIT
 *
 * Finds the module that an address lies in. The search for older versions of glibc reads the
 * loader's list of modules only while dl_iterate_phdr() holds the lock of that list. It must not
 * take the loader's main lock, as dladdr() does: a library's constructor may run for long while
 * that lock is held.
 */
#include "interpose/dispatch/find_module.h"

#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <stddef.h>

#include "interpose/base/fork_guard.h"
#include "ledger/lock.h"

/* the headers of glibc before 2.35 do not declare this struct of later versions */
#ifndef DLFO_STRUCT_HAS_EH_DBASE
struct dl_find_object {
	unsigned long long dlfo_flags;
	void *dlfo_map_start;
	void *dlfo_map_end;
	struct link_map *dlfo_link_map;
	void *dlfo_eh_frame;
	unsigned long long dlfo_reserved[7];
};
int _dl_find_object(void *address, struct dl_find_object *ret);
#endif
/* The loader sets the address to NULL if its libc has no such function. */
#pragma weak _dl_find_object

/* ---- the search ---- */

struct module_search {
	uintptr_t address;
	const struct link_map *first; /* of the list that gpuleak itself is in */
	struct found_module found;
};

/* The first entry of the loader's list. It is the program itself, or the first module of another
 * namespace, and is never unloaded while gpuleak is loaded. */
static _Atomic(const struct link_map *) first_module;

/* Returns the entry whose dynamic section is at DYNAMIC. Locking: dl_iterate_phdr() holds the lock
 * of the list. */
static const struct link_map *map_of(const struct link_map *map, const void *dynamic)
{
	while (map && (const void *)map->l_ld != dynamic)
		map = map->l_next;
	return map;
}

/* Clears the cache if UNLOADS, the loader's count, has changed: a program may call libc's dlclose()
 * without gpuleak's. Locking: as map_of(). */
static void look_for_unloads(unsigned long long unloads)
{
	static _Atomic(unsigned long long) known;

	if (atomic_load_explicit(&known, memory_order_relaxed) == unloads)
		return;
	atomic_store_explicit(&known, unloads, memory_order_relaxed);
	module_forget();
}

static int look_at_module(struct dl_phdr_info *info, size_t size, void *data)
{
	struct module_search *search = data;
	const void *dynamic = NULL, *eh_frame = NULL;
	bool has_address = false;

	(void)size;
	look_for_unloads(info->dlpi_subs);
	for (unsigned int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];
		uintptr_t start = info->dlpi_addr + part->p_vaddr;

		if (part->p_type == PT_LOAD && search->address - start < part->p_memsz)
			has_address = true;
		else if (part->p_type == PT_DYNAMIC)
			dynamic = (const void *)start;
		else if (part->p_type == PT_GNU_EH_FRAME)
			eh_frame = (const void *)start;
	}
	if (!has_address)
		return 0;
	search->found.map = map_of(search->first, dynamic);
	search->found.eh_frame = eh_frame;
	return 1;
}

void module_start(void)
{
	const void *const here = (const void *)module_start;
	const struct link_map *map = NULL;
	Dl_info info;

	if (_dl_find_object) /* dladdr1() also searches all symbols of this library */
		map = module_of(here);
	else if (!dladdr1(here, &info, (void **)&map, RTLD_DL_LINKMAP))
		return;
	while (map && map->l_prev)
		map = map->l_prev;
	atomic_store_explicit(&first_module, map, memory_order_release);
}

bool module_search(const void *address, struct found_module *ret)
{
	struct module_search search = {
		.address = (uintptr_t)address,
		.first = atomic_load_explicit(&first_module, memory_order_acquire),
	};

	if (!fork_guard_iterate(look_at_module, &search) || !search.found.map)
		return false;
	*ret = search.found;
	return true;
}

/* ---- the cache of the search ---- */

/* A key is the number of a page and the low bits of the epoch in which the page was searched. So a
 * result that a thread found before a dlclose(), and stores after it, is never used. */
struct page {
	_Atomic uint64_t key; /* 0: empty, or being written */
	_Atomic(const struct link_map *) map;
};
#define PAGES 1024u
#define PAGE_SHIFT 12
#define EPOCH_BITS 28
static struct page pages[PAGES];
static struct lock storing;
static _Atomic uint64_t epoch = 1;

static uint64_t key_of(const void *address)
{
	uint64_t now = atomic_load_explicit(&epoch, memory_order_acquire);

	return (uint64_t)(uintptr_t)address >> PAGE_SHIFT << EPOCH_BITS |
	       (now & ((UINT64_C(1) << EPOCH_BITS) - 1));
}

/* Stores nothing if another thread is storing. Never waits, because a forked child may inherit a
 * lock that no thread will release. */
static const struct link_map *search_page(struct page *page, uint64_t key, const void *address)
{
	struct found_module found;

	if (!module_search(address, &found))
		return NULL;
	if (lock_try(&storing)) {
		atomic_store(&page->key, 0);
		atomic_store(&page->map, found.map);
		atomic_store(&page->key, key);
		lock_give(&storing);
	}
	return found.map;
}

const struct link_map *module_search_cached(const void *address)
{
	uint64_t key = key_of(address);
	struct page *page = &pages[(uintptr_t)address >> PAGE_SHIFT & (PAGES - 1)];
	const struct link_map *map;

	if (atomic_load_explicit(&page->key, memory_order_acquire) == key) {
		map = atomic_load_explicit(&page->map, memory_order_acquire);
		if (atomic_load_explicit(&page->key, memory_order_relaxed) == key)
			return map;
	}
	return search_page(page, key, address);
}

uint64_t module_epoch(void)
{
	return atomic_load_explicit(&epoch, memory_order_acquire);
}

void module_forget(void)
{
	atomic_fetch_add(&epoch, 1);
}

/* ---- for every glibc ---- */

bool module_find(const void *address, struct found_module *ret)
{
	struct dl_find_object object;

	if (!_dl_find_object)
		return module_search(address, ret);
	if (_dl_find_object((void *)(uintptr_t)address, &object) < 0)
		return false;
	ret->map = object.dlfo_link_map;
	ret->eh_frame = object.dlfo_eh_frame;
	return true;
}

const struct link_map *module_of(const void *address)
{
	struct found_module found;

	if (!_dl_find_object)
		return module_search_cached(address);
	return module_find(address, &found) ? found.map : NULL;
}
