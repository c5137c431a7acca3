/* SPDX-License-Identifier: MIT
 *
 * Owns the table of reporters. Threads fill it without a lock: one that waited here could hold a
 * lock of the loader, or of PyTorch. If two threads find the same reporter, it gets two equal
 * entries. Readers compare the caller's address with the pages of each reporter.
 */
#include "interpose/pytorch/reporters.h"

#include <link.h>
#include <string.h>

#include "interpose/base/config.h"
#include "interpose/base/fork_guard.h"
#include "interpose/base/own_stack.h"
#include "interpose/dispatch/find_module.h"
#include "interpose/dispatch/observations.h"
#include "interpose/dispatch/scope.h"
#include "interpose/stack/waiting.h"

#define REPORTERS 64u
#define FUNCTIONS (HOOK_END_PYTORCH - HOOK_FIRST_PYTORCH)

/* One cache line, because each report reads it. */
struct reporter {
	/* Its pages: the number of the first << PAGE_COUNT_BITS | how many; 0: unused. One word, so
	 * that a reader needs no lock. */
	_Atomic uint64_t pages;
	_Atomic(void *) real[FUNCTIONS];
	_Atomic(const struct link_map *) module; /* NULL: unused */
	const void *dynamic;                     /* the module's dynamic section */
} __attribute__((aligned(64)));
_Static_assert(sizeof(struct reporter) == 64, "a reporter fills one cache line");
#define PAGE_SHIFT 12
#define PAGE_COUNT_BITS 28
#define PAGE_COUNT_MAX (((uint64_t)1 << PAGE_COUNT_BITS) - 1)

static struct reporter reporters[REPORTERS];
/* Index of the entry that reporters_real() used last. Nearly all reports of a process come from one
 * library, so it is tried first. */
static _Atomic unsigned int last_used READ_BY_ALL;
static _Atomic unsigned int used_entries;
/* Stands in an entry while a thread fills or empties it. No module has this address. */
#define BEING_FILLED ((const struct link_map *)reporters)

static struct reporter *find_reporter(const struct link_map *module)
{
	unsigned int count = atomic_load_explicit(&used_entries, memory_order_acquire);

	for (unsigned int i = 0; i < count; i++)
		if (atomic_load_explicit(&reporters[i].module, memory_order_acquire) == module)
			return &reporters[i];
	return NULL;
}

static bool reporter_has(unsigned int number, const void *address)
{
	uint64_t pages = atomic_load_explicit(&reporters[number].pages, memory_order_acquire);

	return ((uintptr_t)address >> PAGE_SHIFT) - (pages >> PAGE_COUNT_BITS) <
	       (pages & PAGE_COUNT_MAX);
}

/* Compares addresses only: to search for the caller's module takes as long as all other work of a
 * free. Each unload is noticed before the loader maps another module (see library_close.c and
 * dlopen.c), so the addresses of a forgotten reporter have no other module yet. */
HOT_CALL void *reporters_real(const struct hook *hook, const void *caller)
{
	unsigned int number = atomic_load_explicit(&last_used, memory_order_relaxed);

	if (__builtin_expect(!reporter_has(number, caller), 0)) {
		unsigned int count = atomic_load_explicit(&used_entries, memory_order_acquire);

		for (number = 0; number < count && !reporter_has(number, caller); number++)
			;
		if (number == count)
			return NULL;
		atomic_store_explicit(&last_used, number, memory_order_relaxed);
	}
	return atomic_load_explicit(&reporters[number].real[hook - &hooks[HOOK_FIRST_PYTORCH]],
				    memory_order_relaxed);
}

/* A reporter that is not in the table yet. */
struct candidate {
	const struct link_map *module;
	const void *dynamic;
	uintptr_t start, end; /* of its memory */
	bool names_report; /* one of its symbols is a report function, of whatever shape */
};

/* Returns true if PATH has a file name of PyTorch's libraries. A wheel that brings its own copy
 * has a hash in the name: "libc10_cuda-0a1b2c3d.so". */
static bool is_of_pytorch(const char *path)
{
	const char *name = basename(path);

	return strncmp(name, "libc10", 6) == 0 || strncmp(name, "libtorch", 8) == 0;
}

/* Returns true if the name of a report function, of whatever shape, is among the names of symbols
 * that DYNAMIC refers to. */
static bool names_report(const struct dl_phdr_info *info, const ElfW(Dyn) *dynamic)
{
	static const char name[] = "_ZN3c1027reportMemoryUsageToProfilerE";
	uintptr_t strings = 0;
	size_t bytes = 0;

	for (; dynamic->d_tag != DT_NULL; dynamic++) {
		if (dynamic->d_tag == DT_STRTAB)
			strings = dynamic->d_un.d_ptr;
		else if (dynamic->d_tag == DT_STRSZ)
			bytes = dynamic->d_un.d_val;
	}
	if (strings < info->dlpi_addr) /* the loader did not relocate it */
		strings += info->dlpi_addr;
	return memmem((const void *)strings, bytes, name, sizeof(name) - 1) != NULL;
}

/* Fills CANDIDATE's addresses from the module's program headers. Returns false if the headers have
 * no dynamic section or no loaded part. */
static bool read_addresses(const struct dl_phdr_info *info, struct candidate *candidate)
{
	candidate->dynamic = NULL;
	candidate->start = UINTPTR_MAX;
	candidate->end = 0;
	for (unsigned int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];
		uintptr_t start = info->dlpi_addr + part->p_vaddr;

		if (part->p_type == PT_DYNAMIC)
			candidate->dynamic = (const void *)start;
		if (part->p_type != PT_LOAD)
			continue;
		if (start < candidate->start)
			candidate->start = start;
		if (start + part->p_memsz > candidate->end)
			candidate->end = start + part->p_memsz;
	}
	return candidate->dynamic && candidate->start < candidate->end;
}

static int find_candidate(struct dl_phdr_info *info, size_t size, void *data)
{
	struct candidate *candidate = data;

	(void)size;
	if (!info->dlpi_name || !is_of_pytorch(info->dlpi_name) || !read_addresses(info, candidate))
		return 0;
	candidate->module = module_of(candidate->dynamic);
	if (!candidate->module || find_reporter(candidate->module))
		return 0;
	candidate->names_report = names_report(info, candidate->dynamic);
	return 1;
}

static uint64_t pages_of(const struct candidate *candidate)
{
	uint64_t first = candidate->start >> PAGE_SHIFT;
	uint64_t last = (candidate->end - 1) >> PAGE_SHIFT;

	return first << PAGE_COUNT_BITS | ((last - first + 1) & PAGE_COUNT_MAX);
}

/* Returns an entry that only this thread fills, or NULL if the table is full. */
static struct reporter *claim_entry(void)
{
	for (unsigned int i = 0; i < REPORTERS; i++) {
		const struct link_map *none = NULL;
		unsigned int count = atomic_load(&used_entries);

		if (!atomic_compare_exchange_strong(&reporters[i].module, &none, BEING_FILLED))
			continue;
		while (count <= i && !atomic_compare_exchange_weak(&used_entries, &count, i + 1))
			;
		return &reporters[i];
	}
	return NULL;
}

/* torch::autograd::Engine::thread_main(std::shared_ptr<GraphTask> const&) */
static const char worker_function[] =
	"_ZN5torch8autograd6Engine11thread_mainERKSt10shared_ptrINS0_9GraphTaskEE";

/* The definition that the caller would have been bound to is in the scope of its own library. */
static bool add_reporter(const struct candidate *candidate)
{
	struct reporter *reporter = claim_entry();
	bool reports = false;
	void *workers;
	size_t bytes;

	if (!reporter)
		return false;
	for (int i = 0; i < FUNCTIONS; i++) {
		struct hook *hook = &hooks[HOOK_FIRST_PYTORCH + i];
		void *real = scope_find(candidate->dynamic, hook->name, NULL);

		reports = reports || (real && hook->kind[0]);
		atomic_store_explicit(&reporter->real[i], real, memory_order_relaxed);
	}
	workers = scope_find(candidate->dynamic, worker_function, &bytes);
	waiting_add_workers(workers, bytes);
	reporter->dynamic = candidate->dynamic;
	if (!reports && candidate->names_report && config.suballocations == OPTION_SWITCH_ON)
		observe_trouble(LEDGER_TROUBLE_UNKNOWN_REPORTERS);
	atomic_store_explicit(&reporter->module, candidate->module, memory_order_release);
	atomic_store_explicit(&reporter->pages, pages_of(candidate), memory_order_release);
	return true;
}

static void forget_unloaded(void)
{
	unsigned int count = atomic_load(&used_entries);

	for (unsigned int i = 0; i < count; i++) {
		const struct link_map *module = atomic_load(&reporters[i].module);

		if (!module || module == BEING_FILLED ||
		    module_of(reporters[i].dynamic) == module ||
		    !atomic_compare_exchange_strong(&reporters[i].module, &module, BEING_FILLED))
			continue;
		atomic_store(&reporters[i].pages, 0);
		atomic_store(&reporters[i].module, NULL);
	}
}

static void look(void *data)
{
	struct candidate candidate;

	(void)data;
	while (fork_guard_iterate(find_candidate, &candidate))
		if (!add_reporter(&candidate))
			return;
}

static int has_name_of_pytorch(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)size, (void)data;
	return info->dlpi_name && is_of_pytorch(info->dlpi_name);
}

void reporters_look(void)
{
	forget_unloaded();
	waiting_forget_unloaded();
	/* Most processes have no such library. They need no stack of gpuleak's own. */
	if (fork_guard_iterate(has_name_of_pytorch, NULL))
		aside(look, NULL);
}
