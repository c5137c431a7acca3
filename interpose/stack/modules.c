/* SPDX-License-Identifier: MIT
 *
 * Maintains the module table and the epoch. Calls the loader, so it runs only for a new stack or
 * after dlclose() (process/library_close.c).
 */
#include "interpose/stack/modules.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>
#include <unistd.h>

#include "interpose/base/fork_guard.h"
#include "interpose/dispatch/coverage.h"
#include "interpose/dispatch/relocations.h"
#include "interpose/recorder/recorder.h"
#include "interpose/recorder/write_observations.h"
#include "interpose/stack/interpreters.h"
#include "interpose/stack/python.h"
#include "interpose/stack/capture.h"
#include "ledger/shared.h"
#include "ledger/temporary_path.h"

static void read_build_id(const struct dl_phdr_info *info, const ElfW(Phdr) *phdr,
			  struct ledger_module *module)
{
	const char *at = (const char *)(info->dlpi_addr + phdr->p_vaddr);
	const char *end = at + phdr->p_memsz;

	while (at + sizeof(ElfW(Nhdr)) <= end) {
		const ElfW(Nhdr) *note = (const ElfW(Nhdr) *)(const void *)at;
		const char *name = at + sizeof(*note);
		const char *id = name + ((note->n_namesz + 3) & ~3u);

		if (id + note->n_descsz > end || id < name)
			return;
		if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 &&
		    memcmp(name, "GNU", 4) == 0 && note->n_descsz <= LEDGER_BUILD_ID_MAX) {
			module->build_id_bytes = note->n_descsz;
			memcpy(module->build_id, id, note->n_descsz);
			return;
		}
		at = id + ((note->n_descsz + 3) & ~3u);
	}
}

static void describe(const struct dl_phdr_info *info, struct ledger_module *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->start = UINT64_MAX;
	ret->bias = info->dlpi_addr;
	for (unsigned int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *phdr = &info->dlpi_phdr[i];
		uint64_t start = info->dlpi_addr + phdr->p_vaddr;

		if (phdr->p_type == PT_NOTE && ret->build_id_bytes == 0)
			read_build_id(info, phdr, ret);
		if (phdr->p_type != PT_LOAD)
			continue;
		if (start < ret->start)
			ret->start = start;
		if (start + phdr->p_memsz > ret->end)
			ret->end = start + phdr->p_memsz;
	}
}

/* Stores the module's path in RET and returns its length. The loader's path may be relative to the
 * current directory; then that directory is put in front, if it is known. */
static size_t module_path(const struct dl_phdr_info *info, char *ret, size_t size)
{
	size_t length = info->dlpi_name ? strlen(info->dlpi_name) : 0;
	ssize_t got;
	size_t at = 0;

	if (length == 0) {
		got = readlink("/proc/self/exe", ret, size - 1);
		return got > 0 ? (size_t)got : 0;
	}
	if (info->dlpi_name[0] != '/' && strchr(info->dlpi_name, '/') && getcwd(ret, size)) {
		at = strlen(ret);
		if (at + 1 < size)
			ret[at++] = '/';
	}
	if (length > size - at)
		length = size - at;
	memcpy(ret + at, info->dlpi_name, length);
	return at + length;
}

static bool same_file(struct recorder *recorder, const struct module *known,
		      const struct ledger_module *seen, const char *path, size_t path_length)
{
	const struct ledger_module *row = ledger_at(&recorder->writer, known->ref);
	const struct ledger_string *string = ledger_at(&recorder->writer, row->path);

	return row->start == seen->start && row->end == seen->end && row->bias == seen->bias &&
	       row->build_id_bytes == seen->build_id_bytes &&
	       memcmp(row->build_id, seen->build_id, seen->build_id_bytes) == 0 &&
	       (row->path == 0 || (string->length == path_length &&
				   memcmp(string->bytes, path, path_length) == 0));
}

/* Parts of the paths of the libraries that call the driver for tensors and arrays. */
static const char *const tensor_libraries[] = {
	"/libc10_cuda", /* PyTorch */
	"/cupy/",       /* CuPy */
	"/xla_cuda",    /* JAX */
};

static bool is_tensor_library(const char *path, size_t length)
{
	const size_t count = sizeof(tensor_libraries) / sizeof(tensor_libraries[0]);

	for (size_t i = 0; i < count; i++)
		if (memmem(path, length, tensor_libraries[i], strlen(tensor_libraries[i])))
			return true;
	return false;
}

/* The loader gives the program itself no name. Its file is likely to stay. */
static bool is_program(const struct dl_phdr_info *info)
{
	return !info->dlpi_name || !*info->dlpi_name;
}

static void module_add(struct recorder *recorder, struct ledger_module *seen, const char *path,
		       size_t path_length, const struct dl_phdr_info *info)
{
	struct modules *modules = recorder->modules;
	struct module *module;

	if (modules->count == MODULES_MAX)
		return;
	seen->path = ledger_add_string(&recorder->writer, path, path_length);
	seen->epoch = modules->epoch;
	module = &modules->module[modules->count];
	module->ref = ledger_add_module(&recorder->writer, seen);
	if (!module->ref)
		return;
	module->start = seen->start;
	module->end = seen->end;
	module->loaded = true;
	module->allocates_tensors = is_tensor_library(path, path_length);
	module->temporary = !is_program(info) && path_is_temporary(path, path_length);
	module->dynamic = (uint64_t)(uintptr_t)relocations_dynamic(info);
	modules->count++;
}

static void new_epoch(struct modules *modules)
{
	shared_publish(modules->epoch, modules->epoch + 1);
}

/* Adds a module that the loader listed, or marks its record as loaded. If the module is mapped at
 * addresses of a different, earlier one, a new epoch begins: the same pc now means other code. */
static void module_seen(struct recorder *recorder, const struct dl_phdr_info *info)
{
	struct modules *modules = recorder->modules;
	struct ledger_module seen;
	char path[PATH_MAX];
	size_t path_length;
	bool taken_over = false;

	describe(info, &seen);
	if (seen.start >= seen.end)
		return;
	path_length = module_path(info, path, sizeof(path));
	for (unsigned int i = modules->count; i-- > 0;) {
		struct module *known = &modules->module[i];

		if (known->end <= seen.start || known->start >= seen.end)
			continue;
		if (!taken_over && same_file(recorder, known, &seen, path, path_length)) {
			known->loaded = true;
			return;
		}
		taken_over = true;
	}
	if (taken_over) {
		modules->taken_over = true;
		new_epoch(modules);
	}
	module_add(recorder, &seen, path, path_length, info);
}

static int module_of_loader(struct dl_phdr_info *info, size_t size, void *data)
{
	struct recorder *recorder = data;
	uint64_t loads = info->dlpi_adds + info->dlpi_subs;

	(void)size;
	if (recorder->modules->loads != loads) {
		python_want();
		atomic_store(&interpreters_due, true);
	}
	recorder->modules->loads = loads;
	module_seen(recorder, info);
	return 0;
}

static void mark_unloaded(struct recorder *recorder)
{
	struct modules *modules = recorder->modules;
	bool gone = false;

	for (unsigned int i = 0; i < modules->count; i++) {
		struct module *module = &modules->module[i];
		struct ledger_module *row = ledger_at(&recorder->writer, module->ref);
		uint32_t flags = module->loaded ? 0 : LEDGER_MODULE_UNLOADED;

		gone = gone || (module->used && flags && !row->flags);
		shared_publish(row->flags, flags);
	}
	/* A module that is loaded at these addresses later must not match stacks recorded for the
	 * unloaded one. */
	if (gone)
		new_epoch(modules);
}

static void refresh_locked(struct recorder *recorder)
{
	struct modules *modules = recorder->modules;

	shared_store(modules->stale, 0);
	for (unsigned int i = 0; i < modules->count; i++)
		modules->module[i].loaded = false;
	fork_guard_iterate(module_of_loader, recorder);
	mark_unloaded(recorder);
	coverage_look(recorder->looked_at);
	observations_write(recorder);
}

void modules_refresh(struct recorder *recorder)
{
	lock_take(&recorder->modules->lock);
	refresh_locked(recorder);
	lock_give(&recorder->modules->lock);
}

static bool covered(struct recorder *recorder, uint64_t pc)
{
	struct modules *modules = recorder->modules;

	for (unsigned int i = modules->count; i-- > 0;) {
		struct module *module = &modules->module[i];

		if (!module->loaded || pc < module->start || pc >= module->end)
			continue;
		if (!module->used && module->temporary)
			module_symbols_copy(recorder, module->ref, module->dynamic,
					    &modules->copied_symbols);
		module->used = true;
		return true;
	}
	return false;
}

static bool has_frame_in(const struct ledger_stack *stack, const struct module *module)
{
	for (unsigned int i = 0; i < stack->frames; i++)
		if (stack->pc[i] - 1 >= module->start && stack->pc[i] - 1 < module->end)
			return true;
	return false;
}

bool modules_allocate_tensors(struct recorder *recorder, uint32_t stack)
{
	const struct ledger_stack *frames = stack ? ledger_at(&recorder->writer, stack) : NULL;
	struct modules *modules = recorder->modules;
	bool ret = false;

	lock_take(&modules->lock);
	for (unsigned int i = 0; frames && i < modules->count && !ret; i++)
		ret = modules->module[i].allocates_tensors && modules->module[i].loaded &&
		      has_frame_in(frames, &modules->module[i]);
	lock_give(&modules->lock);
	return ret;
}

static int count_loads(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)size;
	*(uint64_t *)data = info->dlpi_adds + info->dlpi_subs;
	return 1;
}

void modules_cover(struct recorder *recorder, const struct capture *capture)
{
	struct modules *modules = recorder->modules;
	uint64_t loads = 0;

	lock_take(&modules->lock);
	for (unsigned int i = 0; i < capture->frames; i++) {
		uint64_t pc = (uint64_t)(uintptr_t)capture->first[i] - 1;

		if (covered(recorder, pc))
			continue;
		/* Code outside all modules (from a JIT) must not cause a refresh each time. */
		fork_guard_iterate(count_loads, &loads);
		if (loads == modules->loads)
			continue;
		refresh_locked(recorder);
		covered(recorder, pc);
	}
	observations_write(recorder);
	lock_give(&modules->lock);
}
