/* SPDX-License-Identifier: MIT
 *
 * Reads the relocations of a loaded module that hold addresses of functions in other modules: slots
 * of calls, and pointers in data. Only reads the loader's data.
 */
#pragma once

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct relocations {
	uintptr_t base;
	const char *strings;
	const ElfW(Sym) *symbols;
	const ElfW(Rela) *table[2]; /* [0] of data, [1] of calls (the PLT) */
	size_t rows[2];
};

/* A word that the loader sets, or has set, to the address of function NAME of another module. */
struct module_slot {
	const char *name;
	uint64_t *at;
	bool is_call;
};
typedef void module_slot_found(const struct module_slot *slot, void *data);

/* Returns the dynamic section of the module, or NULL. */
const Elf64_Dyn *relocations_dynamic(const struct dl_phdr_info *info);

/* Fills RET for the module at BASE with this dynamic section. Returns false if it has no table of
 * symbols. */
bool relocations_read(uintptr_t base, const ElfW(Dyn) *dynamic, struct relocations *ret);

/* Calls FOUND for each slot. */
void relocations_each(const struct relocations *relocations, module_slot_found *found, void *data);
