/* SPDX-License-Identifier: MIT
 *
 * Writes gpuleak's functions for ranges into NVTX's tables of function pointers, in each module
 * that contains NVTX. If another tool is the injection, its functions are called first, and its
 * results are returned. Must not need a recorder, and must not call a driver.
 */
#include "interpose/nvtx/nvtx.h"

#include <limits.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "interpose/base/arena.h"
#include "interpose/base/hash.h"
#include "interpose/dispatch/find_module.h"
#include "interpose/recorder/named_ranges.h"

#define VARIABLE "NVTX_INJECTION64_PATH"
#define EXPORT_TABLE_CALLBACKS 1u

/* nvtxEventAttributes_t */
struct attributes {
	uint16_t version, size;
	uint32_t category;
	int32_t color_type;
	uint32_t color;
	int32_t payload_type;
	int32_t reserved;
	uint64_t payload;
	uint32_t message_type;
	const void *message;
};
enum message_type { MESSAGE_ASCII = 1, MESSAGE_UNICODE = 2, MESSAGE_REGISTERED = 3 };
#define PREFIX "InitializeInjectionNvtx"

/* NvtxExportTableCallbacks */
struct callbacks {
	size_t struct_size;
	int (*get_table)(int module, void ****ret_table, unsigned int *ret_size);
};

/* of another tool; NULL: none */
static _Atomic(void *) next_initialize, next_extension;

/* ---- handles of registered strings and of domains ---- */

#define HANDLES 4096u
#define PROBES_MAX 64u
static struct { _Atomic(const void *) handle; _Atomic uint32_t name; } handles[HANDLES];

/* Returns the place of HANDLE, or an unused one that is HANDLE's from now on if ADD. NULL: none */
static _Atomic uint32_t *name_of(const void *handle, bool add)
{
	uint32_t hash = table_hash((uint64_t)(uintptr_t)handle);

	for (uint32_t probe = 0; handle && probe < PROBES_MAX; probe++) {
		uint32_t at = (hash + probe) % HANDLES;
		const void *known = atomic_load(&handles[at].handle);

		if (!known && (!add || atomic_compare_exchange_strong(&handles[at].handle, &known,
								      handle)))
			return add ? &handles[at].name : NULL;
		if (known == handle)
			return &handles[at].name;
	}
	return NULL;
}

uint32_t nvtx_handle_name(const void *handle)
{
	const _Atomic uint32_t *name = name_of(handle, false);

	return name ? atomic_load(name) : 0;
}

/* Stores that NAME has the handle R of another tool, or one of gpuleak's. Returns the handle. */
static uint64_t add_handle(uint32_t name, uint64_t r)
{
	static char own[LEDGER_RANGE_OTHER + 1];
	const void *ret = r == NVTX_NO_RESULT ? &own[name] : (const void *)(uintptr_t)r;
	_Atomic uint32_t *place = name_of(ret, true);

	if (place)
		atomic_store(place, name);
	return (uint64_t)(uintptr_t)ret;
}

static uint32_t wide_name(const wchar_t *text)
{
	struct range_name name = { 0 };

	if (!text)
		return range_name(NULL);
	while (*text && range_name_add(&name, (uint32_t)*text))
		text++;
	return range_name_number(&name);
}

uint32_t nvtx_message_name(uint32_t type, const void *message)
{
	switch (type) {
	case MESSAGE_ASCII:
		return range_name(message);
	case MESSAGE_UNICODE:
		return wide_name(message);
	case MESSAGE_REGISTERED:
		return nvtx_handle_name(message);
	}
	return range_name(NULL);
}

static uint32_t attributes_name(const struct attributes *attributes)
{
	bool is_known = attributes && attributes->size >= sizeof(*attributes);

	return nvtx_message_name(is_known ? attributes->message_type : 0,
				 is_known ? attributes->message : NULL);
}

/* ---- gpuleak's functions ---- */

/* X(module, number in the module, name, parameters, arguments, result): see NVTX_FUNCTION */
#define NVTX_FUNCTIONS(X)                                                                          \
	X(1, 4, start_ex, (const struct attributes *a), (a), started(0, attributes_name(a), r))    \
	X(1, 5, start_a, (const char *text), (text), started(0, range_name(text), r))              \
	X(1, 6, start_w, (const wchar_t *text), (text), started(0, wide_name(text), r))            \
	X(1, 7, end, (uint64_t id), (others_id(id)), ended(id, r))                                 \
	X(5, 2, domain_start, (const void *domain, const struct attributes *a), (domain, a),       \
	  started(nvtx_handle_name(domain), attributes_name(a), r))                                \
	X(5, 3, domain_end, (const void *domain, uint64_t id), (domain, others_id(id)),            \
	  ended(id, r))                                                                            \
	X(1, 8, push_ex, (const struct attributes *a), (a), pushed(0, attributes_name(a), r))      \
	X(1, 9, push_a, (const char *text), (text), pushed(0, range_name(text), r))                \
	X(1, 10, push_w, (const wchar_t *text), (text), pushed(0, wide_name(text), r))             \
	X(1, 11, pop, (void), (), popped(0, r))                                                    \
	X(5, 4, domain_push, (const void *domain, const struct attributes *a), (domain, a),        \
	  pushed(nvtx_handle_name(domain), attributes_name(a), r))                                 \
	X(5, 5, domain_pop, (const void *domain), (domain), popped(nvtx_handle_name(domain), r))   \
	X(5, 10, register_a, (const void *domain, const char *text), (domain, text),               \
	  add_handle(range_name(text), r))                                                         \
	X(5, 11, register_w, (const void *domain, const wchar_t *text), (domain, text),            \
	  add_handle(wide_name(text), r))                                                          \
	X(5, 12, domain_a, (const char *text), (text), add_handle(range_name(text), r))            \
	X(5, 13, domain_w, (const wchar_t *text), (text), add_handle(wide_name(text), r))

enum nvtx_function {
#define X(module, number, name, ...) FUNCTION_##name,
	NVTX_FUNCTIONS(X)
#undef X
	FUNCTION_COUNT
};
static _Atomic(void *) next[FUNCTION_COUNT];

static uint64_t pushed(uint32_t domain, uint32_t name, uint64_t r)
{
	range_push(domain, name);
	return r;
}

/* Another tool that does not track such a range has returned 0 (ncu does). The application gets a
 * number of gpuleak's then, and others_id() gives the tool its 0 back. */
static uint64_t started(uint32_t domain, uint32_t name, uint64_t r)
{
	return range_start(domain, name, r == NVTX_NO_RESULT ? 0 : r);
}

static uint64_t others_id(uint64_t id)
{
	return id >> 32 == RANGE_NEW_ID ? 0 : id;
}

static uint64_t ended(uint64_t id, uint64_t r)
{
	range_end(id);
	return r;
}

static uint64_t popped(uint32_t domain, uint64_t r)
{
	range_pop(domain);
	return r;
}

#define X(module, number, name, parameters, arguments, result)                                     \
	NVTX_FUNCTION(next[FUNCTION_##name], name, parameters, arguments, result)
NVTX_FUNCTIONS(X)
#undef X

static const struct nvtx_function_row {
	int module;
	unsigned int number;
	void *ours;
} functions[FUNCTION_COUNT] = {
#define X(module, number, name, ...) { module, number, (void *)name },
	NVTX_FUNCTIONS(X)
#undef X
};

/* ---- start ---- */

static bool is_on;

void *nvtx_found(const char *name, void *found)
{
	bool is_core = strcmp(name, PREFIX "2") == 0;

	if (!is_on || (!is_core && strcmp(name, PREFIX "Extension") != 0))
		return found;
	atomic_store(is_core ? &next_initialize : &next_extension, found);
	return is_core ? (void *)InitializeInjectionNvtx2
		       : (void *)InitializeInjectionNvtxExtension;
}

int InitializeInjectionNvtxExtension(struct nvtx_extension *extension)
{
	int (*other)(struct nvtx_extension *) =
		(int (*)(struct nvtx_extension *))atomic_load(&next_extension);
	bool others = other && other(extension);

	return (is_on && nvtx_memory_start(extension, others)) || others;
}

/* Returns where NVTX has its pointer for FUNCTION, or NULL. */
static void **pointer_of(const struct callbacks *callbacks,
			 const struct nvtx_function_row *function)
{
	void ***table = NULL;
	unsigned int size = 0;

	if (!callbacks || callbacks->struct_size < sizeof(*callbacks) ||
	    !callbacks->get_table(function->module, &table, &size) || !table)
		return NULL;
	return function->number <= size ? table[function->number] : NULL;
}

int InitializeInjectionNvtx2(nvtx_get_export_table *get_export_table)
{
	int (*other)(nvtx_get_export_table *) =
		(int (*)(nvtx_get_export_table *))atomic_load(&next_initialize);
	const struct callbacks *callbacks = get_export_table(EXPORT_TABLE_CALLBACKS);
	void **pointer, *before[FUNCTION_COUNT] = { 0 };
	bool others;

	for (unsigned int i = 0; i < FUNCTION_COUNT; i++)
		if ((pointer = pointer_of(callbacks, &functions[i])))
			before[i] = *pointer;
	others = other && other(get_export_table);
	for (unsigned int i = 0; i < FUNCTION_COUNT && is_on; i++) {
		if (!(pointer = pointer_of(callbacks, &functions[i])))
			continue;
		if (others && *pointer != before[i] && *pointer != functions[i].ours)
			atomic_store(&next[i], *pointer);
		*pointer = functions[i].ours;
	}
	return others || is_on;
}

/* Returns true if US, this library, was loaded at the start of the program: before the dynamic
 * linker in the list of modules. */
static bool is_of_start(const struct link_map *us)
{
	uintptr_t linker = getauxval(AT_BASE);

	for (const struct link_map *map = us; linker && map->l_addr != linker; map = map->l_next)
		if (!map->l_next)
			return false;
	return true;
}

/* Adds the variable with the name of US to the environment. Does not call the application's malloc,
 * as setenv() would. */
static void set_variable(const struct link_map *us)
{
	static char variable[sizeof(VARIABLE) + PATH_MAX];
	char **variables;
	size_t count = 0;

	if (strlen(us->l_name) >= PATH_MAX)
		return;
	strcpy(stpcpy(variable, VARIABLE "="), us->l_name);
	while (environ && environ[count])
		count++;
	variables = pages_map((count + 2) * sizeof(*variables));
	if (!variables)
		return;
	if (count)
		memcpy(variables, environ, count * sizeof(*variables));
	variables[count] = variable;
	environ = variables;
}

bool nvtx_start(bool records)
{
	const struct link_map *us = module_of((const void *)nvtx_start);
	const char *path = getenv(VARIABLE);

	if (!us || !us->l_name)
		return false;
	if (!is_of_start(us))
		return path && strcmp(path, us->l_name) == 0;
	is_on = records;
	if (records && !path)
		set_variable(us);
	return false;
}
