/* SPDX-License-Identifier: MIT
 *
 * Walks the tree of DT_NEEDED names of a module breadth first, as dlsym() with a handle does, and
 * searches each module's hash table. Trusts the tables of loaded modules, as the loader does.
 */
#include "interpose/dispatch/scope.h"

#include <limits.h>
#include <link.h>
#include <stdint.h>
#include <string.h>

#include "interpose/base/fork_guard.h"

#define MODULES_MAX 1024u

struct scope_module {
	ElfW(Addr) base;
	const char *path;
	const ElfW(Dyn) *dynamic;
	const char *strings;
	const char *soname; /* NULL: none */
	bool has_address;
	bool queued;
};

struct scope_search {
	uintptr_t address;
	const char *name;
	void *found;
	size_t bytes;
	unsigned int count, queued;
	struct scope_module modules[MODULES_MAX];
	uint16_t queue[MODULES_MAX];
};

/* Returns the address in entry TAG of the dynamic section. Most loaders relocate these entries. */
static const void *pointer_of(const struct scope_module *module, ElfW(Sxword) tag)
{
	for (const ElfW(Dyn) *at = module->dynamic; at && at->d_tag != DT_NULL; at++)
		if (at->d_tag == tag)
			return (const void *)(at->d_un.d_ptr < module->base
						      ? at->d_un.d_ptr + module->base
						      : at->d_un.d_ptr);
	return NULL;
}

static int add_module(struct dl_phdr_info *info, size_t size, void *data)
{
	struct scope_search *search = data;
	struct scope_module *module = &search->modules[search->count];

	(void)size;
	if (search->count == MODULES_MAX)
		return 1;
	*module = (struct scope_module){ .base = info->dlpi_addr, .path = info->dlpi_name };
	for (unsigned int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];
		uintptr_t start = info->dlpi_addr + part->p_vaddr;

		if (part->p_type == PT_DYNAMIC)
			module->dynamic = (const ElfW(Dyn) *)start;
		else if (part->p_type == PT_LOAD && search->address - start < part->p_memsz)
			module->has_address = true;
	}
	module->strings = pointer_of(module, DT_STRTAB);
	if (!module->strings)
		return 0;
	for (const ElfW(Dyn) *at = module->dynamic; at->d_tag != DT_NULL; at++)
		if (at->d_tag == DT_SONAME)
			module->soname = module->strings + at->d_un.d_val;
	search->count++;
	return 0;
}

static bool has_name(const struct scope_module *module, const char *name)
{
	const char *slash = module->path ? strrchr(module->path, '/') : NULL;

	return (module->soname && strcmp(module->soname, name) == 0) ||
	       (module->path && strcmp(module->path, name) == 0) ||
	       (slash && strcmp(slash + 1, name) == 0);
}

static void enqueue(struct scope_search *search, unsigned int number)
{
	if (search->modules[number].queued)
		return;
	search->modules[number].queued = true;
	search->queue[search->queued++] = (uint16_t)number;
}

/* Adds the modules that MODULE was linked with. For each name it takes the first module that has
 * this name, as the loader does. */
static void enqueue_needed(struct scope_search *search, const struct scope_module *module)
{
	for (const ElfW(Dyn) *at = module->dynamic; at->d_tag != DT_NULL; at++) {
		const char *name = module->strings + at->d_un.d_val;
		unsigned int i = 0;

		if (at->d_tag != DT_NEEDED)
			continue;
		while (i < search->count && !has_name(&search->modules[i], name))
			i++;
		if (i < search->count)
			enqueue(search, i);
	}
}

static bool is_definition(const struct scope_module *module, const ElfW(Sym) *symbol,
			  const char *name)
{
	return symbol->st_shndx != SHN_UNDEF && ELF64_ST_TYPE(symbol->st_info) == STT_FUNC &&
	       ELF64_ST_BIND(symbol->st_info) != STB_LOCAL &&
	       strcmp(module->strings + symbol->st_name, name) == 0;
}

static const ElfW(Sym) *find_gnu(const struct scope_module *module, const uint32_t *table,
				 const ElfW(Sym) *symbols, const char *name)
{
	uint32_t buckets = table[0], first = table[1], filters = table[2], hash = 5381, at;
	const uint32_t *bucket = table + 4 + filters * (sizeof(ElfW(Addr)) / sizeof(*table));
	const uint32_t *chain = bucket + buckets;

	for (const unsigned char *c = (const unsigned char *)name; *c; c++)
		hash = hash * 33 + *c;
	at = buckets ? bucket[hash % buckets] : 0;
	if (at < first)
		return NULL;
	for (;; at++) {
		if ((chain[at - first] | 1) == (hash | 1) &&
		    is_definition(module, &symbols[at], name))
			return &symbols[at];
		if (chain[at - first] & 1)
			return NULL;
	}
}

static const ElfW(Sym) *find_old(const struct scope_module *module, const uint32_t *table,
				 const ElfW(Sym) *symbols, const char *name)
{
	for (uint32_t at = 0; at < table[1]; at++) /* one entry for each symbol */
		if (is_definition(module, &symbols[at], name))
			return &symbols[at];
	return NULL;
}

static const ElfW(Sym) *find_symbol(const struct scope_module *module, const char *name)
{
	const ElfW(Sym) *symbols = pointer_of(module, DT_SYMTAB);
	const uint32_t *gnu = pointer_of(module, DT_GNU_HASH);
	const uint32_t *old = gnu ? NULL : pointer_of(module, DT_HASH);

	if (symbols && gnu)
		return find_gnu(module, gnu, symbols, name);
	return symbols && old ? find_old(module, old, symbols, name) : NULL;
}

static bool find_in(struct scope_search *search, const struct scope_module *module)
{
	const ElfW(Sym) *found = find_symbol(module, search->name);

	if (!found)
		return false;
	search->found = (void *)(module->base + found->st_value);
	search->bytes = found->st_size;
	return true;
}

/* The first callback does all the work, because the loader's lock is held meanwhile. */
static int find(struct dl_phdr_info *info, size_t size, void *data)
{
	struct scope_search *search = data;

	(void)info;
	(void)size;
	fork_guard_iterate(add_module, search);
	for (unsigned int i = 0; i < search->count && !search->queued; i++)
		if (search->modules[i].has_address)
			enqueue(search, i);
	for (unsigned int i = 0; i < search->queued; i++) {
		const struct scope_module *module = &search->modules[search->queue[i]];

		if (find_in(search, module))
			break;
		enqueue_needed(search, module);
	}
	return 1;
}

bool scope_exports(const struct link_map *map, const char *name)
{
	struct scope_module module = { .base = map->l_addr, .dynamic = map->l_ld };

	module.strings = pointer_of(&module, DT_STRTAB);
	return module.strings && find_symbol(&module, name);
}

void *scope_find(const void *address, const char *name, size_t *ret_bytes)
{
	struct scope_search search;

	search.address = (uintptr_t)address;
	search.name = name;
	search.found = NULL;
	search.bytes = 0;
	search.count = search.queued = 0;
	fork_guard_iterate(find, &search);
	if (ret_bytes)
		*ret_bytes = search.bytes;
	return search.found;
}
