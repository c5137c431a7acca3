/* SPDX-License-Identifier: MIT
 *
 * Finds modules that reach a driver, and those that bypass gpuleak. Reads the relocation slots
 * through which loaded modules call the driver, and the process's memory map. Only reads the
 * loader's data. Writes no report text.
 */
#include "interpose/dispatch/coverage.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include "interpose/base/fork_guard.h"
#include "interpose/base/config.h"
#include "interpose/base/memory_map.h"
#include "interpose/dispatch/api.h"
#include "interpose/dispatch/loader.h"
#include "interpose/dispatch/relocations.h"
#include "interpose/dispatch/resolve.h"
#include "interpose/base/submit_epoch.h"

#define SEARCH_BYTES_MAX ((size_t)64 << 20)

static _Atomic bool called[API_COUNT];       /* a linked call arrived */
static _Atomic bool asked_global[API_COUNT]; /* dlsym() returned gpuleak's export */
static _Atomic bool deepbind_opened, namespace_opened;

void coverage_route(enum observation_kind route, enum api api, const void *caller)
{
	if (route == OBSERVED_DLSYM)
		atomic_store_explicit(&asked_global[api], true, memory_order_relaxed);
	observation_record(route, apis[api]->title, lookup_module_name(caller), NULL);
}

/* Records that MODULE can call the driver's function NAME. ASKED: MODULE looked NAME up or called
 * it. Otherwise it is only linked to it. */
static void saw(const char *name, const char *module, bool asked)
{
	const char *reason;

	if (class_submits(name))
		submits_unknown();
	switch (class_of(name, &reason)) {
	case CLASS_NO_MEMORY:
		return;
	case CLASS_UNKNOWN:
		observation_record(asked ? OBSERVED_UNCLASSED : OBSERVED_REFERRED_UNCLASSED, name,
				   module, NULL);
		return;
	case CLASS_GAP:
		observation_record(asked ? OBSERVED_UNTRACKED : OBSERVED_REFERRED_UNTRACKED, name,
				   module, reason);
		return;
	case CLASS_DRIVER:
	case CLASS_ALIAS:
	case CLASS_OBJECT:
		observation_record(OBSERVED_IGNORED, name, NULL, reason);
		return;
	}
}

void coverage_saw(const char *name, const void *caller)
{
	apis_saw_unknown(name);
	saw(name, lookup_module_name(caller), true);
}

void coverage_called(enum api api)
{
	atomic_store_explicit(&called[api], true, memory_order_relaxed);
}

/* A module that is opened with its own scope may call the driver directly. Only the scan at exit
 * can detect that. */
void coverage_deepbind(const char *file, const void *caller, bool cleared)
{
	if (!cleared) {
		atomic_store(&deepbind_opened, true);
		submits_unknown();
	}
	observation_record(cleared ? OBSERVED_DEEPBIND_COVERED : OBSERVED_DEEPBIND_OPEN,
			   file ? file : "", lookup_module_name(caller), NULL);
}

void coverage_namespace(const char *file, const void *caller)
{
	atomic_store(&namespace_opened, true);
	submits_unknown();
	observation_record(OBSERVED_NAMESPACE_OPEN, file ? file : "", lookup_module_name(caller),
			   NULL);
}

/* ---- the driver's internal tables ---- */

/* The tables that every CUDA runtime from 12.1 to 13.5 requests, in whatever library the runtime is
 * linked. The UUIDs of the first five are in the runtimes' files; runtime 13.0 requested the others
 * on an H200. None of them contains allocation functions. */
static const unsigned char known_tables[][16] = {
	{ 0xa0, 0x94, 0x79, 0x8c, 0x2e, 0x74, 0x2e, 0x74,
	  0x93, 0xf2, 0x08, 0x00, 0x20, 0x0c, 0x0a, 0x66 },
	{ 0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a,
	  0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d, 0xf9 },
	{ 0xc6, 0x93, 0x33, 0x6e, 0x11, 0x21, 0xdf, 0x11,
	  0xa8, 0xc3, 0x68, 0xf3, 0x55, 0xd8, 0x95, 0x93 },
	{ 0xd4, 0x08, 0x20, 0x55, 0xbd, 0xe6, 0x70, 0x4b,
	  0x8d, 0x34, 0xba, 0x12, 0x3c, 0x66, 0xe1, 0xf2 },
	{ 0x26, 0x3e, 0x88, 0x60, 0x7c, 0xd2, 0x61, 0x43,
	  0x92, 0xf6, 0xbb, 0xd5, 0x00, 0x6d, 0xfa, 0x7e },
	{ 0x42, 0xd8, 0x5a, 0x81, 0x23, 0xf6, 0xcb, 0x47,
	  0x82, 0x98, 0xf6, 0xe7, 0x8a, 0x3a, 0xec, 0xdc },
	{ 0xf8, 0xcf, 0xf9, 0x51, 0x21, 0x46, 0x8b, 0x4e,
	  0xb9, 0xe2, 0xfb, 0x46, 0x9e, 0x7c, 0x0d, 0xd9 },
};

/* Returns true if MODULE is one of NVIDIA's own libraries, such as a CUDA runtime or a profiler.
 * They make no allocations that bypass gpuleak. Whether they submit work that bypasses it is not
 * known. */
static bool is_vendors(const char *module)
{
	const char *base = module ? basename(module) : NULL;

	return base && (strncmp(base, "libcu", 5) == 0 || strncmp(base, "libnv", 5) == 0 ||
			strncmp(base, "libnccl", 7) == 0 || strncmp(base, "libnpp", 6) == 0);
}

void coverage_export_table(const unsigned char *uuid, const void *caller)
{
	static const char digits[] = "0123456789abcdef";
	const char *module = lookup_module_name(caller);
	bool known = false;
	char text[2 * 16 + 4 + 1], *at = text;

	for (unsigned int i = 0; i < 16; i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			*at++ = '-';
		*at++ = digits[uuid[i] >> 4];
		*at++ = digits[uuid[i] & 15];
	}
	*at = '\0';
	for (size_t i = 0; i < sizeof(known_tables) / sizeof(known_tables[0]); i++)
		known = known || memcmp(uuid, known_tables[i], 16) == 0;
	if (!known)
		submits_unknown();
	known = known || is_vendors(module);
	observation_record(known ? OBSERVED_KNOWN_EXPORT_TABLE : OBSERVED_EXPORT_TABLE, text,
			   module, NULL);
}

/* ---- the slots of loaded modules ---- */

struct module_image {
	struct relocations relocations;
	const char *path;
	bool needs_driver;
	bool lazy; /* calls are bound lazily: a bound call was made at least once */
	/* follows gpuleak in the list: its calls reach gpuleak first, unless it has its own
	 * scope */
	bool behind_us;
	bool finds_past_us; /* calls libc's dlsym, not gpuleak's */
};

static bool is_driver(const char *path)
{
	return lookup_driver_named(path) < API_COUNT;
}

static bool read_image(const struct dl_phdr_info *info, const ElfW(Dyn) *dynamic,
		       struct module_image *ret)
{
	*ret = (struct module_image){ .path = info->dlpi_name };
	if (!relocations_read(info->dlpi_addr, dynamic, &ret->relocations))
		return false;
	for (; dynamic->d_tag != DT_NULL; dynamic++)
		if (dynamic->d_tag == DT_NEEDED &&
		    is_driver(ret->relocations.strings + dynamic->d_un.d_val))
			ret->needs_driver = true;
	return true;
}

static bool is_libc(const void *address)
{
	const char *module = lookup_module_name(address);

	return module && module == lookup_module_name((const void *)dlerror);
}

/* Returns true if VALUE is a library's function NAME that all callers reach instead of gpuleak's
 * export, although gpuleak is preloaded: another preload comes first. If that library calls the
 * next function, gpuleak gets the call. */
static bool is_in_front(const char *name, const void *value)
{
	const char *module = resolve_is_ours(value) ? NULL : lookup_module_name(value);

	return module && *module && lookup_real(RTLD_DEFAULT, name) == value &&
	       resolve_is_ours(lookup_real(RTLD_DEFAULT, "_exit"));
}

/* Checks a slot that is bound. Records a call that bypasses gpuleak, or that reaches it by
 * linking. */
static void look_at_slot(const struct module_slot *slot, void *data)
{
	struct module_image *image = data;
	const char *name = slot->name, *module = image->path;
	const void *value = *(void *const *)slot->at;
	enum api api = api_of(name);

	if (api == API_COUNT) {
		if (strcmp(name, "dlsym") == 0 && is_libc(value))
			image->finds_past_us = true;
		return;
	}
	/* No slot is bound to an export of a library that was opened later: an attachment changes
	 * slots by their values. */
	if (!apis[api]->libraries[0] || recording_was_requested)
		return;
	if (!hook_find(name)) {
		if (lookup_in_driver(api, value))
			saw(name, module, slot->is_call && image->lazy);
		return;
	}
	if (lookup_in_driver(api, value) && image->behind_us) {
		observation_record(OBSERVED_DEEPBIND, apis[api]->title, module, NULL);
		submits_unknown();
	} else if (resolve_is_ours(value) && atomic_load(&called[api])) {
		observation_record(OBSERVED_LINKED, apis[api]->title, module, NULL);
	} else if (!atomic_load(&called[api]) && is_in_front(name, value)) {
		observation_record(OBSERVED_IN_FRONT, apis[api]->title, lookup_module_name(value),
				   NULL);
		submits_unknown();
	}
}

/* A module binds calls lazily if at least one call is still bound to the module's own stub. */
static void find_unbound(const struct module_slot *slot, void *data)
{
	struct module_image *image = data;

	if (slot->is_call && !image->lazy)
		image->lazy = lookup_module_name(*(void *const *)slot->at) == image->path;
}

static bool mentions(const struct dl_phdr_info *info, const char *text)
{
	for (unsigned int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *phdr = &info->dlpi_phdr[i];
		size_t bytes = phdr->p_filesz < SEARCH_BYTES_MAX ? phdr->p_filesz
								 : SEARCH_BYTES_MAX;

		if (phdr->p_type == PT_LOAD && phdr->p_flags & PF_R &&
		    memmem((const void *)(info->dlpi_addr + phdr->p_vaddr), bytes, text,
			   strlen(text)))
			return true;
	}
	return false;
}

/* Records the APIs whose driver a module may look up with libc's dlsym. gpuleak does not see these
 * lookups, so this searches the module for the driver's file name. */
static void look_for_names(const struct dl_phdr_info *info)
{
	for (int i = 0; i < API_COUNT; i++)
		if (apis[i]->libraries[0] && mentions(info, apis[i]->libraries[0]))
			observation_record(OBSERVED_DEEPBIND, apis[i]->title, info->dlpi_name,
					   NULL);
}

struct module_scan {
	struct modules_looked_at *known; /* NULL: another thread is scanning */
	bool libc_seen, ours_seen, begun, all;
	bool names; /* also search modules for the drivers' file names */
};

/* Returns true if the module at INFO must be scanned. */
static bool is_worth(struct module_scan *scan, const struct dl_phdr_info *info)
{
	struct modules_looked_at *known = scan->known;

	if (!scan->begun) {
		scan->begun = true;
		scan->all = !known || known->loads != info->dlpi_adds ||
			    known->count > LOOKED_MAX || atomic_load(&deepbind_opened);
		scan->names = scan->names || !known || known->loads != info->dlpi_adds;
		if (known && scan->all)
			known->count = 0;
		if (known)
			known->loads = info->dlpi_adds;
	}
	for (unsigned int i = 0; !scan->all && i < known->count; i++)
		if (known->base[i] == info->dlpi_addr)
			return true;
	return scan->all;
}

static void module_scan_add(struct module_scan *scan, const struct dl_phdr_info *info)
{
	struct modules_looked_at *known = scan->known;

	if (!known || !scan->all)
		return;
	if (known->count < LOOKED_MAX)
		known->base[known->count] = info->dlpi_addr;
	known->count++;
}

static int look_at_module(struct dl_phdr_info *info, size_t size, void *data)
{
	bool deepbind = atomic_load_explicit(&deepbind_opened, memory_order_relaxed);
	struct module_image image;
	struct module_scan *scan = data;
	const ElfW(Dyn) *dynamic;

	(void)size;
	if (!is_worth(scan, info) && scan->ours_seen)
		return 0;
	dynamic = relocations_dynamic(info);
	/* gpuleak itself. If it was opened later, for example as a layer of OpenCL's loader, it
	 * follows libc in the list and no linked call reaches it. */
	if (resolve_is_ours(dynamic)) {
		scan->ours_seen = true;
		return scan->libc_seen;
	}
	scan->libc_seen = scan->libc_seen || is_libc(dynamic);
	if (is_driver(info->dlpi_name) || is_libc(dynamic) || !read_image(info, dynamic, &image) ||
	    (!image.needs_driver && !deepbind))
		return 0;
	image.behind_us = scan->ours_seen;
	module_scan_add(scan, info);
	relocations_each(&image.relocations, find_unbound, &image);
	relocations_each(&image.relocations, look_at_slot, &image);
	if (deepbind && scan->names && image.behind_us && image.finds_past_us)
		look_for_names(info);
	return 0;
}

static void look_at_modules(struct modules_looked_at *known, bool names)
{
	struct module_scan scan = { .names = names };

	if (lock_try(&known->lock))
		scan.known = known;
	fork_guard_iterate(look_at_module, &scan);
	if (scan.known)
		lock_give(&known->lock);
}

void coverage_look(struct modules_looked_at *known)
{
	look_at_modules(known, false);
}

/* ---- other namespaces ---- */

struct code_place {
	uintptr_t address;
	bool found;
};

static int segment_contains(struct dl_phdr_info *info, size_t size, void *data)
{
	struct code_place *place = data;

	(void)size;
	for (unsigned int i = 0; i < info->dlpi_phnum && !place->found; i++) {
		const ElfW(Phdr) *phdr = &info->dlpi_phdr[i];
		uintptr_t start = info->dlpi_addr + phdr->p_vaddr;

		place->found = phdr->p_type == PT_LOAD && place->address + 4096 > start &&
			       place->address < start + phdr->p_memsz;
	}
	return place->found;
}

/* Checks a line of the process's memory map. Driver code that is in no module of this namespace
 * belongs to another namespace. dl_iterate_phdr() lists only its own namespace. */
static bool look_at_mapping(const struct memory_mapping *mapping, void *data)
{
	struct code_place place = { mapping->start, false };

	(void)data;
	if (mapping->rights[2] != 'x' || *mapping->path != '/' || !is_driver(mapping->path))
		return true;
	fork_guard_iterate(segment_contains, &place);
	if (!place.found)
		observation_record(OBSERVED_NAMESPACE,
				   apis[lookup_driver_named(mapping->path)]->title, mapping->path,
				   NULL);
	return true;
}

/* Records linked calls for which no module's slot was found. Such a module does not list the driver
 * as needed, but calls the functions that the program is linked to. */
static void note_linked(enum api api)
{
	if (atomic_load(&called[api]) && !atomic_load(&asked_global[api]))
		observation_record(OBSERVED_LINKED, apis[api]->title, NULL, NULL);
}

void coverage_look_everywhere(struct modules_looked_at *known, bool at_end)
{
	if (at_end || atomic_load(&namespace_opened))
		memory_map_each(look_at_mapping, NULL);
	for (int api = 0; at_end && api < API_COUNT; api++)
		note_linked((enum api)api);
	look_at_modules(known, true);
}

/* Returns true if another library's function of an API precedes gpuleak's export. Looks up only
 * names that gpuleak exports, because a lookup that fails allocates memory. */
static bool any_in_front(void)
{
	for (int i = 0; i < HOOK_COUNT; i++)
		if (is_in_front(hooks[i].name, lookup_real(RTLD_DEFAULT, hooks[i].name)))
			return true;
	return false;
}

static struct modules_looked_at unrecorded; /* of a process without a recorder */

void coverage_look_unrecorded(void)
{
	if (atomic_load(&deepbind_opened))
		look_at_modules(&unrecorded, true);
}

const struct observation *coverage_bypass(void)
{
	if (!atomic_load(&deepbind_opened) && !atomic_load(&namespace_opened) && !any_in_front())
		return NULL;
	coverage_look_everywhere(&unrecorded, true);
	for (unsigned int i = 0; i < OBSERVATIONS_MAX; i++) {
		const struct observation *seen = observation_at(i);

		if (seen && (seen->kind == OBSERVED_DEEPBIND || seen->kind == OBSERVED_IN_FRONT ||
			     seen->kind == OBSERVED_NAMESPACE))
			return seen;
	}
	return NULL;
}
