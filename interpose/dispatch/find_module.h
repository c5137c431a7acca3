/* SPDX-License-Identifier: MIT
 *
 * Finds the module that an address lies in, on every glibc. glibc 2.35 and later have
 * _dl_find_object(), which takes no lock. For older ones there is a search with
 * dl_iterate_phdr(), whose results are cached by page.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct link_map;

struct found_module {
	const struct link_map *map;
	const void *eh_frame; /* start of .eh_frame_hdr, or NULL */
};

/* Returns true, and fills RET, if ADDRESS lies in a loaded module. Before glibc 2.35 this takes the
 * loader's lock for its list of modules, and finds only modules of gpuleak's own namespace. */
bool module_find(const void *address, struct found_module *ret);
/* Returns the module that ADDRESS lies in, or NULL. The result is valid while the module is loaded.
 * Takes no lock, except before glibc 2.35: there the first search in a page of memory takes the
 * lock that module_find() takes. */
const struct link_map *module_of(const void *address);
/* Finds the loader's list of modules. Before it runs, module_find() may find nothing. It uses the
 * loader, so the constructor or the first symbol lookup calls it. */
void module_start(void);
/* Clears the cache. Called before and after a library is unloaded, and before one is loaded. */
void module_forget(void);
/* Returns a number that changes with each module_forget(), for other caches about modules. */
uint64_t module_epoch(void);

/* The searches for older versions of glibc. Only module_find(), module_of() and their test call
 * these. */
bool module_search(const void *address, struct found_module *ret);
const struct link_map *module_search_cached(const void *address);
