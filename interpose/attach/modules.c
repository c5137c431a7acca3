/* SPDX-License-Identifier: MIT
 *
 * Changes words in the memory of loaded libraries: their data, their slots for functions of other
 * libraries, and the part that the loader made read-only after relocation. Runs inside
 * dl_iterate_phdr(), so no module is unmapped meanwhile. A module that the loader still relocates
 * is left alone until the next call.
 */
#include "interpose/attach/words.h"

#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "interpose/base/fork_guard.h"
#include "interpose/base/memory_map.h"
#include "interpose/dispatch/loader.h"
#include "interpose/dispatch/relocations.h"

/* The modules at the start of the loader's list that were changed already: new ones are appended. 0
 * after a module was unloaded. */
static unsigned int done;
static unsigned long long unloads;

struct change {
	bool only_new;
	bool waits; /* a module was left for the next call */
	bool has_driver; /* one of the modules that were visited */
	unsigned int visited;
	/* of the module that is visited */
	const struct dl_phdr_info *info;
	uint64_t relro_start, relro_end;
};

/* ---- the rights of a page ---- */

struct rights_search {
	uint64_t address;
	bool writable;
};

static bool look_at_rights(const struct memory_mapping *mapping, void *data)
{
	struct rights_search *search = data;
	bool found = search->address >= mapping->start && search->address < mapping->end;

	search->writable = found && mapping->rights[1] == 'w';
	return !found;
}

static bool is_writable(uint64_t address)
{
	struct rights_search search = { .address = address };

	memory_map_each(look_at_rights, &search);
	return search.writable;
}

/* ---- words ---- */

/* The loader's own code reads the page meanwhile, and no other code writes to it. */
static void change_read_only(const struct word *word)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	void *at = (void *)(uintptr_t)((uint64_t)(uintptr_t)word->at & ~(page - 1));

	if (mprotect(at, page, PROT_READ | PROT_WRITE) < 0) {
		words_unchanged++;
		return;
	}
	word_change(word);
	mprotect(at, page, PROT_READ);
}

static void change(const struct word *word, void *data)
{
	const struct change *change = data;
	uint64_t at = (uint64_t)(uintptr_t)word->at;

	(at >= change->relro_start && at < change->relro_end ? change_read_only
							      : word_change)(word);
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

static void change_slot(const struct module_slot *slot, void *data)
{
	struct change *state = data;
	struct word word = { .at = slot->at, .from = *(volatile uint64_t *)slot->at };

	if (!word.from)
		return;
	word.to = words_by_name(slot->name, word.from, state->info->dlpi_phdr);
	if (!word.to && is_own(state, word.from))
		word.to = words_for_unbound(slot->name);
	if (word.to)
		change(&word, state);
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

static void find_relro(struct change *state)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	state->relro_start = state->relro_end = 0;
	for (unsigned int i = 0; i < state->info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &state->info->dlpi_phdr[i];
		uint64_t start = base_of(state) + part->p_vaddr;

		if (part->p_type != PT_GNU_RELRO)
			continue;
		/* the loader rounds both down */
		state->relro_start = start & ~(page - 1);
		state->relro_end = (start + part->p_memsz) & ~(page - 1);
	}
}

static void change_data(struct change *state)
{
	for (unsigned int i = 0; i < state->info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &state->info->dlpi_phdr[i];
		uint64_t start = base_of(state) + part->p_vaddr;

		if (part->p_type == PT_LOAD && (part->p_flags & PF_W))
			words_search(start, start + part->p_memsz, change, state);
	}
}

static int change_module(struct dl_phdr_info *info, size_t size, void *data)
{
	const ElfW(Dyn) *dynamic = relocations_dynamic(info);
	struct relocations relocations;
	struct change *state = data;

	(void)size;
	if (!state->visited && (!state->only_new || info->dlpi_subs != unloads))
		done = 0;
	unloads = info->dlpi_subs;
	if (state->visited++ < done)
		return 0;
	state->info = info;
	state->has_driver |= lookup_driver_named(info->dlpi_name) < API_COUNT;
	find_relro(state);
	if (dynamic && !is_left_alone(info, dynamic)) {
		/* the loader makes it read-only at the end of relocation */
		if (state->relro_start < state->relro_end && is_writable(state->relro_start)) {
			state->waits = true;
			return 0;
		}
		if (relocations_read(info->dlpi_addr, dynamic, &relocations))
			relocations_each(&relocations, change_slot, state);
		change_data(state);
	}
	if (!state->waits)
		done = state->visited;
	return 0;
}

void modules_change(bool only_new)
{
	struct change state = { .only_new = only_new };

	fork_guard_iterate(change_module, &state);
	/* The words of a driver that was loaded after the attachment are not known before. */
	if (only_new && state.has_driver && words_prepare(WORDS_ATTACH))
		modules_change(false);
}
