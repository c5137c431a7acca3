/* SPDX-License-Identifier: MIT
 *
 * Walks the relocation tables of one module in memory, for coverage, attachments and libunwind's
 * references. Must not call the loader, because callers hold its lock.
 */
#include "interpose/dispatch/relocations.h"

#include <elf.h>

#if defined(__x86_64__)
#define IS_SLOT(type) ((type) == R_X86_64_JUMP_SLOT || (type) == R_X86_64_GLOB_DAT || \
		       (type) == R_X86_64_64)
#else
#define IS_SLOT(type) ((type) == R_AARCH64_JUMP_SLOT || (type) == R_AARCH64_GLOB_DAT || \
		       (type) == R_AARCH64_ABS64)
#endif

const Elf64_Dyn *relocations_dynamic(const struct dl_phdr_info *info)
{
	for (unsigned int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			return (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
	return NULL;
}

/* The loader has relocated some addresses; others are still relative to the module. */
static const void *pointer_of(uintptr_t base, uintptr_t address)
{
	return (const void *)(address && address < base ? address + base : address);
}

bool relocations_read(uintptr_t base, const ElfW(Dyn) *dynamic, struct relocations *ret)
{
	uintptr_t value[DT_JMPREL + 1] = { 0 };
	size_t relative = 0;

	for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++)
		if (dynamic->d_tag > 0 && dynamic->d_tag <= DT_JMPREL)
			value[dynamic->d_tag] = dynamic->d_un.d_val;
		else if (dynamic->d_tag == DT_RELACOUNT)
			relative = dynamic->d_un.d_val;
	*ret = (struct relocations){
		.base = base,
		.strings = pointer_of(base, value[DT_STRTAB]),
		.symbols = pointer_of(base, value[DT_SYMTAB]),
		.table = { pointer_of(base, value[DT_RELA]), pointer_of(base, value[DT_JMPREL]) },
		.rows = { value[DT_RELA] ? value[DT_RELASZ] / sizeof(ElfW(Rela)) : 0,
			  value[DT_JMPREL] ? value[DT_PLTRELSZ] / sizeof(ElfW(Rela)) : 0 },
	};
	if (relative <= ret->rows[0]) { /* these come first and have no symbol */
		ret->table[0] += relative;
		ret->rows[0] -= relative;
	}
	return ret->strings && ret->symbols;
}

void relocations_each(const struct relocations *relocations, module_slot_found *found, void *data)
{
	for (int table = 0; table < 2; table++)
		for (size_t i = 0; i < relocations->rows[table]; i++) {
			const ElfW(Rela) *row = &relocations->table[table][i];
			const ElfW(Sym) *symbol =
				&relocations->symbols[ELF64_R_SYM(row->r_info)];

			if (!IS_SLOT(ELF64_R_TYPE(row->r_info)) || symbol->st_shndx != SHN_UNDEF)
				continue;
			found(&(struct module_slot){ relocations->strings + symbol->st_name,
					      (uint64_t *)(relocations->base + row->r_offset),
					      table == 1 }, data);
		}
}
