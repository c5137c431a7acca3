/* SPDX-License-Identifier: MIT
 *
 * Addresses of drivers' functions and of the wrappers for them. Owns their table, and the search of
 * memory for words that are in it. Must not call the loader while memory is searched, and
 * must not allocate with malloc.
 */
#include "interpose/attach/words.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "interpose/base/arena.h"
#include "interpose/base/config.h"
#include "interpose/base/fork_guard.h"
#include "interpose/dispatch/api.h"
#include "interpose/dispatch/coverage.h"
#include "interpose/dispatch/loader.h"
#include "interpose/dispatch/resolve.h"
#include "interpose/dispatch/scope.h"
#include "interpose/dispatch/variants.h"
#include "ledger/nocancel.h"

#define FUNCTIONS_MAX 2048u
#define SLOTS_OF_HASH (8 * FUNCTIONS_MAX)
#define DRIVERS_MAX 8u
#define BUFFER_BYTES ((size_t)256 << 10)
#define PAGE_BYTES ((size_t)4096)
#define PAGES_AT_ONCE (BUFFER_BYTES / PAGE_BYTES)
/* Pages of code are hashed into so many bits: most words are neither in the table nor near it. */
#define PAGE_BITS 16384u

/* ---- libc's functions that a preload replaces, too ---- */

int __cxa_atexit(void (*handler)(void *), void *argument, void *module);

static const struct {
	const char *name;
	void *ours;
} libc_functions[] = {
#define LIBC(symbol) { #symbol, (void *)symbol },
#include "interpose/dispatch/libc.def"
#undef LIBC
};
#define LIBC_FUNCTIONS (sizeof(libc_functions) / sizeof(libc_functions[0]))

/* Handlers that were registered before are not seen, so an order of exit handlers can't be kept.
 * Programs that an attached process starts are not recorded. libc's _Exit() is its _exit(): if a
 * library such as AddressSanitizer's wraps _exit() only, its pointer to libc's function would lead
 * to gpuleak, which calls that library. */
static bool is_left_out(const char *name)
{
	static const char *const names[] = { "__cxa_atexit", "on_exit", "posix_spawn",
					     "posix_spawnp", "_Exit" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return false;
}

/* ---- the table ---- */

/* A function of a driver or of libc, and what a word may hold instead. */
struct function {
	const char *name;
	uint64_t real, wrapper;
	uint64_t when_off; /* in a process that was started with GPULEAK_RECORD=off; else `real` */
	uint64_t exported; /* gpuleak's export of this name; 0: words may hold it */
};

/* One mapping, so that the search can skip it. */
struct word_table {
	struct function function[FUNCTIONS_MAX];
	unsigned int functions;
	enum words_direction direction;
	unsigned short by_address[SLOTS_OF_HASH]; /* 1 + index of a function; 0: empty */
	uint64_t pages[PAGE_BITS / 64];
	uint64_t present[PAGES_AT_ONCE];
	uint64_t buffer[BUFFER_BYTES / sizeof(uint64_t)];
};
static struct word_table *table;
unsigned int words_unchanged;

static unsigned int slot_of(uint64_t address)
{
	return (unsigned int)(address * 0x9e3779b97f4a7c15u >> 40) % SLOTS_OF_HASH;
}

static unsigned int page_bit(uint64_t address)
{
	return (unsigned int)((address >> 12) * 0x9e3779b97f4a7c15u >> 50) % PAGE_BITS;
}

static bool is_ours(const struct function *function, uint64_t address)
{
	return address == function->wrapper || address == function->exported;
}

/* Returns the function that has ADDRESS as one of its addresses, or NULL. */
static const struct function *function_of(uint64_t address)
{
	for (unsigned int at = slot_of(address); address && table->by_address[at];
	     at = (at + 1) % SLOTS_OF_HASH) {
		const struct function *function = &table->function[table->by_address[at] - 1];

		if (address == function->real || address == function->when_off ||
		    is_ours(function, address))
			return function;
	}
	return NULL;
}

/* If several names have one address, the first one has the wrapper, and all wrappers lead back. */
static void add_address(uint64_t address)
{
	unsigned int at = slot_of(address), page = page_bit(address);

	if (!address || function_of(address))
		return;
	while (table->by_address[at])
		at = (at + 1) % SLOTS_OF_HASH;
	table->by_address[at] = (unsigned short)table->functions;
	table->pages[page / 64] |= UINT64_C(1) << page % 64;
}

static uint64_t target_of(const struct function *function)
{
	return table->direction == WORDS_ATTACH ? function->wrapper : function->when_off;
}

static void function_add(const struct function *new)
{
	for (unsigned int i = 0; i < table->functions; i++)
		if (table->function[i].real == new->real &&
		    table->function[i].wrapper == new->wrapper)
			return;
	if (!new->real || !new->wrapper || new->real == new->wrapper)
		return;
	if (table->functions == FUNCTIONS_MAX) {
		words_unchanged++;
		return;
	}
	table->function[table->functions++] = *new;
	add_address(new->real);
	add_address(new->wrapper);
	add_address(new->when_off);
	add_address(new->exported);
}

uint64_t words_other(uint64_t word)
{
	const struct function *function = function_of(word);

	return function && is_ours(function, word) == (table->direction == WORDS_DETACH)
		       ? target_of(function) : 0;
}

bool words_are_ours(uint64_t at, size_t bytes)
{
	uint64_t ours = (uint64_t)(uintptr_t)table;

	return at < ours + sizeof(*table) && ours < at + bytes;
}

/* ---- the drivers' functions ---- */

struct drivers {
	enum api api[DRIVERS_MAX];
	char path[DRIVERS_MAX][512];
	unsigned int count;
};

static int add_driver(struct dl_phdr_info *info, size_t size, void *data)
{
	struct drivers *drivers = data;
	enum api api = info->dlpi_name ? lookup_driver_named(info->dlpi_name) : API_COUNT;
	size_t length;

	(void)size;
	if (api == API_COUNT)
		return 0;
	words_unchanged += drivers->count == DRIVERS_MAX;
	length = strlen(info->dlpi_name);
	if (length && length < sizeof(drivers->path[0]) && drivers->count < DRIVERS_MAX) {
		drivers->api[drivers->count] = api;
		memcpy(drivers->path[drivers->count++], info->dlpi_name, length + 1);
	}
	return 0;
}

/* REAL is the function of HOOK in a driver. Returns its wrapper, or NULL if REAL belongs to a
 * second driver of an API for which gpuleak has one wrapper only. */
static void *wrapper_of(struct hook *hook, void *real)
{
	void *none = NULL;

	if (slots_has(hook)) {
		atomic_compare_exchange_strong(&hook->driver, &none, real);
		return slots_wrapper(hook, real, NULL);
	}
	if (atomic_load(&hook->driver) != real &&
	    !atomic_compare_exchange_strong(&hook->driver, &none, real))
		return NULL;
	return hook->wrapper;
}

static void add_function(struct hook *hook, void *real)
{
	void *exported = recording_is_prepared ? lookup_real(RTLD_DEFAULT, hook->name) : NULL;

	function_add(&(struct function){
		.name = hook->name,
		.real = (uint64_t)(uintptr_t)real,
		.wrapper = (uint64_t)(uintptr_t)wrapper_of(hook, real),
		.when_off = (uint64_t)(uintptr_t)hook_when_off(hook, real),
		.exported = resolve_is_ours(exported) ? (uint64_t)(uintptr_t)exported : 0,
	});
}

static void add_functions(enum api api, const char *path)
{
	void *handle = lookup_loaded(path);

	if (!handle)
		return;
	for (int id = 0; id < HOOK_COUNT; id++) {
		struct hook *hook = &hooks[id];
		void *real = NULL;

		if (hook->api == api && !hook_is_unneeded(hook))
			real = lookup_real(handle, hook->name);
		if (real && !resolve_is_ours(real) && lookup_in_driver(api, real))
			add_function(hook, real);
	}
	lookup_close(handle);
}

/* In a process that was started with GPULEAK_RECORD=off, calls of libc's functions reach gpuleak
 * already. */
static void add_libc(void)
{
	for (size_t i = 0; i < LIBC_FUNCTIONS && !recording_is_prepared; i++) {
		const char *name = libc_functions[i].name;
		uint64_t real;

		if (is_left_out(name))
			continue;
		real = (uint64_t)(uintptr_t)resolve_next(name);
		function_add(&(struct function){
			.name = name, .real = real, .when_off = real,
			.wrapper = (uint64_t)(uintptr_t)libc_functions[i].ours,
		});
	}
}

bool words_prepare(enum words_direction direction)
{
	struct drivers drivers = { .count = 0 };
	struct dlerror_state state;

	if (!table)
		table = pages_map(sizeof(*table));
	if (!table) {
		words_unchanged++;
		return false;
	}
	table->direction = direction;
	fork_guard_iterate(add_driver, &drivers);
	dlerror_take(&state);
	for (unsigned int i = 0; i < drivers.count; i++) {
		coverage_route(OBSERVED_ATTACHED, drivers.api[i], NULL);
		add_functions(drivers.api[i], drivers.path[i]);
	}
	add_libc();
	dlerror_give_back(&state);
	return true;
}

uint64_t words_for_unbound(const char *name)
{
	for (unsigned int i = 0; i < table->functions; i++)
		if ((table->direction == WORDS_ATTACH || table->function[i].exported) &&
		    strcmp(table->function[i].name, name) == 0)
			return target_of(&table->function[i]);
	return 0;
}

uint64_t words_by_name(const char *name, uint64_t value, const void *module)
{
	for (int id = HOOK_FIRST_PYTORCH; id < HOOK_END_PYTORCH; id++) {
		uint64_t ours = (uint64_t)(uintptr_t)hooks[id].wrapper;

		if (strcmp(hooks[id].name, name) != 0)
			continue;
		if (table->direction == WORDS_ATTACH)
			return value == ours ? 0 : ours;
		return value == ours
			       ? (uint64_t)(uintptr_t)scope_find(module, name, NULL) : 0;
	}
	return 0;
}

/* ---- the search ---- */

/* Copies memory of this process, as far as it is mapped. Returns the number of bytes. */
static size_t copy_memory(void *to, uint64_t from, size_t bytes)
{
	const struct iovec here = { to, bytes };
	const struct iovec there = { (void *)(uintptr_t)from, bytes };
	ssize_t n = syscall(SYS_process_vm_readv, getpid(), &here, 1ul, &there, 1ul, 0ul);
	int fd;

	if (n >= 0 || (errno != EPERM && errno != ENOSYS))
		return n > 0 ? (size_t)n : 0;
	/* A filter of system calls forbids it. */
	fd = nocancel_open("/proc/self/mem", O_RDONLY | O_CLOEXEC, 0);
	words_unchanged += fd < 0;
	n = fd < 0 ? 0 : nocancel_pread(fd, to, bytes, (off_t)from);
	if (fd >= 0)
		nocancel_close(fd);
	return n > 0 ? (size_t)n : 0;
}

static void search_part(uint64_t at, uint64_t end, words_found *found, void *data)
{
	const size_t words = copy_memory(table->buffer, at, end - at) / sizeof(uint64_t);

	for (size_t i = 0; i < words; i++) {
		uint64_t word = table->buffer[i], other;
		unsigned int page = page_bit(word);

		if (!(table->pages[page / 64] & UINT64_C(1) << page % 64))
			continue;
		other = words_other(word);
		if (other)
			found(&(struct word){ (uint64_t *)(uintptr_t)at + i, word, other }, data);
	}
}

/* Fills table->present for the COUNT pages at AT. Without /proc/self/pagemap, all pages count as
 * present. */
static void find_present(int pagemap, uint64_t at, size_t count)
{
	size_t bytes = count * sizeof(uint64_t);

	if (pagemap < 0 ||
	    nocancel_pread(pagemap, table->present, bytes,
			   (off_t)(at / PAGE_BYTES * sizeof(uint64_t))) != (ssize_t)bytes)
		memset(table->present, 0xff, bytes);
}

static bool is_present(size_t page)
{
	return table->present[page] >> 63;
}

void words_search(uint64_t at, uint64_t end, words_found *found, void *data)
{
	int pagemap = sysconf(_SC_PAGESIZE) == (long)PAGE_BYTES
			      ? nocancel_open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC, 0) : -1;

	for (uint64_t part = at & -PAGE_BYTES; part < end; part += BUFFER_BYTES) {
		size_t pages = (size_t)(end - part + PAGE_BYTES - 1) / PAGE_BYTES, next;

		pages = pages < PAGES_AT_ONCE ? pages : PAGES_AT_ONCE;
		find_present(pagemap, part, pages);
		for (size_t page = 0; page < pages; page = next) {
			uint64_t from = part + page * PAGE_BYTES, to;

			for (next = page + 1; next < pages && is_present(next) == is_present(page);)
				next++;
			to = part + next * PAGE_BYTES;
			if (is_present(page))
				search_part(from < at ? (at + 7) & -UINT64_C(8) : from,
					    to < end ? to : end, found, data);
		}
	}
	if (pagemap >= 0)
		nocancel_close(pagemap);
}

/* The word may lie in a redzone of the application's AddressSanitizer, or in freed memory. */
__attribute__((no_sanitize("address"))) void word_change(const struct word *word)
{
	uint64_t from = word->from;

	atomic_compare_exchange_strong((_Atomic uint64_t *)word->at, &from, word->to);
}
