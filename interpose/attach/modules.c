/* SPDX-License-Identifier: MIT
 *
 * Changes words in the memory of loaded libraries: their data, their slots for functions of other
 * libraries, and the part that the loader made read-only after relocation. Runs inside
 * dl_iterate_phdr(), so no module is unmapped meanwhile. A module that the loader still relocates
 * is left alone until the next call.
 */
#include "interpose/attach/words.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "interpose/base/fork_guard.h"
#include "interpose/dispatch/loader.h"

#define MODULES_MAX 8192u

#if defined(__x86_64__)
#define TYPE_JUMP_SLOT R_X86_64_JUMP_SLOT
#define TYPE_GLOB_DAT R_X86_64_GLOB_DAT
#else
#define TYPE_JUMP_SLOT R_AARCH64_JUMP_SLOT
#define TYPE_GLOB_DAT R_AARCH64_GLOB_DAT
#endif

/* The modules that were changed already, by the hash of their address. Cleared when a module was
 * unloaded. */
static uint64_t done[MODULES_MAX];
static unsigned long long unloads;

struct change {
	bool only_new;
	bool begun;
	/* of the module that is visited */
	const struct dl_phdr_info *info;
	uint64_t start, end; /* of the part that is searched */
	bool read_only;      /* the part is */
};

static uint64_t *done_slot(uint64_t key)
{
	unsigned int at = (unsigned int)(key * 0x9e3779b97f4a7c15u >> 40);

	for (unsigned int i = 0; i < 64; i++) {
		uint64_t *slot = &done[(at + i) % MODULES_MAX];

		if (!*slot || *slot == key)
			return slot;
	}
	return NULL; /* the table is full here: the module is visited each time */
}

/* ---- the rights of a page ---- */

struct rights_search {
	uint64_t address;
	bool found, writable;
};

static bool look_at_rights(uint64_t start, uint64_t end, const char *rights, const char *path,
			   void *data)
{
	struct rights_search *search = data;

	(void)path;
	if (search->address < start || search->address >= end)
		return true;
	search->found = true;
	search->writable = rights[1] == 'w';
	return false;
}

static bool is_writable(uint64_t address)
{
	struct rights_search search = { .address = address };

	memory_each_mapping(look_at_rights, &search);
	return search.found && search.writable;
}

/* ---- words ---- */

/* The loader's own code reads the page meanwhile, and no other code writes to it. */
static void change_read_only(const struct word *word)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	void *at = (void *)(uintptr_t)((uint64_t)(uintptr_t)word->at & ~(page - 1));

	if (mprotect(at, page, PROT_READ | PROT_WRITE) < 0)
		return;
	word_change(word);
	mprotect(at, page, PROT_READ);
}

static void change(const struct word *word, void *data)
{
	struct change *change = data;
	uint64_t at = (uint64_t)(uintptr_t)word->at;

	if (at >= change->start && at + sizeof(uint64_t) <= change->end)
		(change->read_only ? change_read_only : word_change)(word);
}

static void search_part(struct change *state, uint64_t start, uint64_t end, bool read_only)
{
	state->start = start;
	state->end = end;
	state->read_only = read_only;
	if (start < end)
		words_search(start, end - start, change, state);
}

/* ---- slots ---- */

static uint64_t base_of(const struct change *change)
{
	return change->info->dlpi_addr;
}

/* Returns true if ADDRESS lies in the module itself: the slot of a call that is not bound yet holds
 * the address of the module's own stub. */
static bool is_own(const struct change *change, uint64_t address)
{
	const struct dl_phdr_info *info = change->info;

	for (unsigned int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_LOAD &&
		    address - base_of(change) - info->dlpi_phdr[i].p_vaddr <
			    info->dlpi_phdr[i].p_memsz)
			return true;
	return false;
}

static void change_slot(struct change *state, const char *name, uint64_t *at, bool read_only)
{
	struct word word = { .at = at, .from = *(volatile uint64_t *)at };

	if (!word.from)
		return;
	word.to = words_by_name(name, word.from, state->info->dlpi_phdr);
	if (!word.to && is_own(state, word.from))
		word.to = words_for_unbound(name);
	if (word.to)
		(read_only ? change_read_only : word_change)(&word);
}

static uint64_t pointer_of(const struct change *change, const ElfW(Dyn) *entry)
{
	uint64_t address = entry->d_un.d_ptr;

	return address < base_of(change) ? address + base_of(change) : address;
}

struct slot_tables {
	const char *strings;
	const ElfW(Sym) *symbols;
	const ElfW(Rela) *rows[2];
	size_t bytes[2];
};

static void read_tables(const struct change *change, const ElfW(Dyn) *at, struct slot_tables *ret)
{
	memset(ret, 0, sizeof(*ret));
	for (; at->d_tag != DT_NULL; at++) {
		if (at->d_tag == DT_STRTAB)
			ret->strings = (const char *)pointer_of(change, at);
		else if (at->d_tag == DT_SYMTAB)
			ret->symbols = (const ElfW(Sym) *)pointer_of(change, at);
		else if (at->d_tag == DT_RELA)
			ret->rows[0] = (const ElfW(Rela) *)pointer_of(change, at);
		else if (at->d_tag == DT_RELASZ)
			ret->bytes[0] = at->d_un.d_val;
		else if (at->d_tag == DT_JMPREL)
			ret->rows[1] = (const ElfW(Rela) *)pointer_of(change, at);
		else if (at->d_tag == DT_PLTRELSZ)
			ret->bytes[1] = at->d_un.d_val;
	}
}

static void change_slots(struct change *state, const ElfW(Dyn) *dynamic, uint64_t relro_start,
			 uint64_t relro_end)
{
	struct slot_tables tables;

	read_tables(state, dynamic, &tables);
	if (!tables.strings || !tables.symbols)
		return;
	for (int table = 0; table < 2; table++)
		for (size_t i = 0; tables.rows[table] &&
				   i < tables.bytes[table] / sizeof(ElfW(Rela)); i++) {
			const ElfW(Rela) *row = &tables.rows[table][i];
			const ElfW(Sym) *symbol = &tables.symbols[ELF64_R_SYM(row->r_info)];
			uint64_t type = ELF64_R_TYPE(row->r_info);
			uint64_t at = base_of(state) + row->r_offset;

			if ((type == TYPE_JUMP_SLOT || type == TYPE_GLOB_DAT) &&
			    symbol->st_shndx == SHN_UNDEF)
				change_slot(state, tables.strings + symbol->st_name,
					    (uint64_t *)(uintptr_t)at,
					    at >= relro_start && at < relro_end);
		}
}

/* ---- modules ---- */

/* The driver's tables are what cuGetProcAddress returns, and what the driver itself calls. The
 * loader and libc do not call drivers. */
static bool is_left_alone(const struct dl_phdr_info *info, const void *dynamic)
{
	const char *name = info->dlpi_name ? basename(info->dlpi_name) : "";

	return resolve_is_ours(dynamic) || lookup_is_of_driver(dynamic) ||
	       strncmp(name, "libc.so", 7) == 0 || strncmp(name, "ld-linux", 8) == 0 ||
	       strncmp(name, "libdl.so", 8) == 0 || strncmp(name, "linux-vdso", 10) == 0;
}

struct module_parts {
	const ElfW(Dyn) *dynamic;
	uint64_t relro_start, relro_end;
};

static void find_parts(const struct dl_phdr_info *info, struct module_parts *ret)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	memset(ret, 0, sizeof(*ret));
	for (unsigned int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];
		uint64_t start = info->dlpi_addr + part->p_vaddr;

		if (part->p_type == PT_DYNAMIC)
			ret->dynamic = (const ElfW(Dyn) *)start;
		if (part->p_type == PT_GNU_RELRO) {
			/* the loader rounds both down */
			ret->relro_start = start & ~(page - 1);
			ret->relro_end = (start + part->p_memsz) & ~(page - 1);
		}
	}
}

static void change_parts(struct change *change, const struct module_parts *parts)
{
	const struct dl_phdr_info *info = change->info;

	for (unsigned int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];
		uint64_t start = info->dlpi_addr + part->p_vaddr, end = start + part->p_memsz;

		if (part->p_type != PT_LOAD || !(part->p_flags & PF_W))
			continue;
		search_part(change, start, end < parts->relro_start ? end : parts->relro_start,
			    false);
		search_part(change, start > parts->relro_end ? start : parts->relro_end, end,
			    false);
	}
	search_part(change, parts->relro_start, parts->relro_end, true);
}

static int change_module(struct dl_phdr_info *info, size_t size, void *data)
{
	struct change *state = data;
	struct module_parts parts;
	uint64_t *slot;

	(void)size;
	if (!state->begun && (!state->only_new || info->dlpi_subs != unloads))
		memset(done, 0, sizeof(done));
	state->begun = true;
	unloads = info->dlpi_subs;
	find_parts(info, &parts);
	if (!parts.dynamic)
		return 0;
	slot = done_slot((uint64_t)(uintptr_t)parts.dynamic);
	if ((slot && *slot) || is_left_alone(info, parts.dynamic))
		return 0;
	/* the loader makes it read-only at the end of relocation */
	if (parts.relro_start < parts.relro_end && is_writable(parts.relro_start))
		return 0;
	state->info = info;
	change_slots(state, parts.dynamic, parts.relro_start, parts.relro_end);
	change_parts(state, &parts);
	if (slot)
		*slot = (uint64_t)(uintptr_t)parts.dynamic;
	return 0;
}

void modules_change(bool only_new)
{
	struct change state = { .only_new = only_new };

	fork_guard_iterate(change_module, &state);
}
