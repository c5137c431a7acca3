/* SPDX-License-Identifier: MIT
 *
 * Caches, for each pair of a module and a function, what the dynamic linker would have bound the
 * call to without gpuleak. That is the next definition in the global scope, otherwise one in the
 * module's own scope. The cache is read without a lock; an evicted pair is looked up again. In
 * front of it is a cache by the address of the call, which needs no search for the module.
 *
 * Calls the loader, so it must not run during a dlsym() lookup.
 */
#include "interpose/dispatch/resolve.h"

#include <link.h>
#include <string.h>

#include "interpose/base/own_stack.h"
#include "interpose/dispatch/api.h"
#include "interpose/dispatch/coverage.h"
#include "interpose/dispatch/loader.h"
#include "ledger/lock.h"
#include "ledger/shared.h"

struct cell {
	_Atomic uint64_t key; /* 0: empty, or being written */
	_Atomic(void *) real;
	_Atomic bool record;
};
#define CELLS 2048u
#define TRIES 4u
static struct cell cells[CELLS];
static struct lock writing;

/* Numbers for hooks, used functions and the vendor check; part of a cell's key. The low bits of a
 * module's address are 0, so a shift by KEY_SHIFT leaves room for NUMBER_BITS. */
#define OF_HOOK(hook) ((unsigned int)((hook) - hooks))
#define OF_USED(id) ((unsigned int)HOOK_COUNT + (unsigned int)(id))
#define OF_VENDOR ((unsigned int)HOOK_COUNT + (unsigned int)USED_COUNT)
/* of a guarded hook */
#define OF_GUARDED(hook) (OF_VENDOR + 1 + OF_HOOK(hook))
#define KEY_SHIFT 9
#define NUMBER_BITS 12
_Static_assert(_Alignof(struct link_map) << KEY_SHIFT >= 1 << NUMBER_BITS,
	       "the number of a call does not overlap the address of a module");
_Static_assert(2 * (int)HOOK_COUNT + (int)USED_COUNT < 1 << NUMBER_BITS, "each call has a number");

static uint64_t cell_key_of(const struct link_map *map, unsigned int call)
{
	return (uint64_t)(uintptr_t)map << KEY_SHIFT | call;
}

static struct cell *cell_at(uint64_t key, unsigned int i)
{
	return &cells[((unsigned int)(key * 0x9e3779b97f4a7c15u >> 40) + i) % CELLS];
}

static bool route_lookup(uint64_t key, struct route *ret)
{
	for (unsigned int i = 0; i < TRIES; i++) {
		struct cell *cell = cell_at(key, i);

		if (atomic_load_explicit(&cell->key, memory_order_acquire) != key)
			continue;
		ret->real = atomic_load_explicit(&cell->real, memory_order_acquire);
		ret->record = atomic_load_explicit(&cell->record, memory_order_acquire);
		if (atomic_load_explicit(&cell->key, memory_order_relaxed) == key)
			return true;
	}
	return false;
}

/* Adds ROUTE to the cache, unless another thread holds the lock. Never waits, because a forked
 * child may inherit a lock that no thread will release. */
static void route_insert(uint64_t key, const struct route *route)
{
	struct cell *cell = cell_at(key, 0);

	if (!lock_try(&writing))
		return;
	for (unsigned int i = 0; i < TRIES; i++) {
		if (atomic_load(&cell_at(key, i)->key) == 0) {
			cell = cell_at(key, i);
			break;
		}
	}
	atomic_store(&cell->key, 0);
	atomic_store(&cell->real, route->real);
	atomic_store(&cell->record, route->record);
	atomic_store(&cell->key, key);
	lock_give(&writing);
}

/* ---- the cache by the address of the call ----
 *
 * A reader accepts an entry only if its two words belong together, so no lock is needed. */

struct near {
	_Atomic uint64_t check; /* key ^ word */
	_Atomic uint64_t word;  /* the function's address, shifted left; the lowest bit: record */
};
#define NEAR 1024u /* a power of two */
static struct near near_calls[NEAR];

static uint64_t near_key_of(const void *address, unsigned int call)
{
	return (uint64_t)(uintptr_t)address << NUMBER_BITS | call;
}

static HOT struct near *near_at(uint64_t key)
{
	return &near_calls[key * 0x9e3779b97f4a7c15u >> 54];
}
_Static_assert(NEAR == 1 << 10, "near_at() takes ten bits of the hash");

static HOT bool near_lookup(uint64_t key, struct route *ret)
{
	const struct near *near = near_at(key);
	uint64_t word = shared_load(near->word);

	*ret = (struct route){ (void *)(uintptr_t)(word >> 1), word & 1, NULL };
	return shared_load(near->check) == (key ^ word);
}

static void near_insert(uint64_t key, const struct route *route)
{
	struct near *near = near_at(key);
	uint64_t word = (uint64_t)(uintptr_t)route->real << 1 | route->record;

	shared_store(near->word, word);
	shared_store(near->check, key ^ word);
}

void callers_forget(void)
{
	for (unsigned int i = 0; i < NEAR; i++)
		if (shared_load(near_calls[i].check))
			shared_store(near_calls[i].check, 0);
	for (unsigned int i = 0; i < CELLS; i++)
		if (atomic_load_explicit(&cells[i].key, memory_order_relaxed))
			atomic_store(&cells[i].key, 0);
}

/* Returns the function NAME from MODULE or the libraries that it links, or NULL. */
static void *in_scope_of(const struct link_map *module, const char *name)
{
	return module && module->l_name && module->l_name[0] ? resolve_in(module->l_name, name)
							      : NULL;
}

/* Returns true if MODULE is an implementation of OpenCL, which exports the symbol that loaders look
 * up. Its calls are not recorded: it calls its own exported functions for itself, or inside a call
 * that gpuleak has already recorded. */
static bool is_vendor(const struct link_map *module)
{
	for (int i = 0; i < API_COUNT; i++) {
		const char *symbol = apis[i]->vendor_symbol;
		void *found = symbol ? in_scope_of(module, symbol) : NULL;

		if (found && module_of(found) == module)
			return true;
	}
	return false;
}

static bool in_same_library(const void *a, const void *b)
{
	const char *one = lookup_module_name(a), *other = lookup_module_name(b);

	return one && other && strncmp(basename(one), basename(other), 9) == 0; /* "libcudart" */
}

/* Finds the function that follows gpuleak's export. It may be the driver's, another interposer's,
 * or an unrelated function of the same name: see find_direct() in resolve.c. A process may have
 * several CUDA runtimes, an API without a driver. Then it is that of MODULE's own runtime, which
 * the dynamic linker would choose by the version of the symbol. */
static struct route find_route(struct hook *hook, const struct link_map *module)
{
	void *next = resolve_next(hook->name), *own = NULL;

	if (next && !apis[hook->api]->libraries[0])
		own = in_scope_of(module, hook->name);
	if (own && in_same_library(own, next))
		next = own;
	if (next)
		return (struct route){ next, lookup_in_driver(hook->api, next) ||
						     resolve_driver_is_loaded(hook->api) };
	next = in_scope_of(module, hook->name);
	if (next)
		return (struct route){ next, lookup_in_driver(hook->api, next) };
	return resolve_driver_slowly(hook);
}

struct route_request {
	struct hook *hook;
	const struct link_map *module;
	struct route route;
};

static void find_route_aside(void *data)
{
	struct route_request *request = data;

	request->route = find_route(request->hook, request->module);
	if (request->route.record && is_vendor(request->module))
		request->route.record = false;
}

static struct route route_of(struct hook *hook, const struct link_map *module)
{
	uint64_t key = cell_key_of(module, hook->is_guarded ? OF_GUARDED(hook) : OF_HOOK(hook));
	struct route_request request = { hook, module, { 0 } };

	if (route_lookup(key, &request.route))
		return request.route;
	aside(find_route_aside, &request);
	if (request.route.record)
		coverage_called(hook->api);
	if (request.route.real && module)
		route_insert(key, &request.route);
	return request.route;
}

struct route callers_route(struct hook *hook, const void *caller)
{
	const uint64_t key = near_key_of(caller, OF_HOOK(hook));
	const struct link_map *module;
	struct route route;

	if (near_lookup(key, &route))
		return route;
	module = module_of(caller);
	route = route_of(hook, module);
	if (hook->is_guarded && route.real && route.record)
		return linked_store(hook, route.real);
	if (route.real && module)
		near_insert(key, &route);
	return route;
}

bool callers_is_vendor(const struct link_map *module)
{
	uint64_t key = cell_key_of(module, OF_VENDOR);
	struct route route = { 0 };

	if (!module || route_lookup(key, &route))
		return route.record;
	route.record = is_vendor(module);
	route_insert(key, &route);
	return route.record;
}

static void *used_of(enum used_id id, const struct link_map *module)
{
	uint64_t key = cell_key_of(module, OF_USED(id));
	struct route route = { 0 };

	if (route_lookup(key, &route))
		return route.real;
	route.real = in_scope_of(module, used[id].name);
	if (!route.real || module_of(route.real) != module)
		route.real = resolve_used(id);
	if (route.real)
		route_insert(key, &route);
	return route.real;
}

void *callers_used(enum used_id id, const void *real)
{
	const uint64_t key = near_key_of(real, OF_USED(id));
	const struct link_map *module;
	struct route route;

	if (near_lookup(key, &route))
		return route.real;
	module = module_of(real);
	if (!module)
		return resolve_used(id);
	route = (struct route){ used_of(id, module), true, NULL };
	if (route.real)
		near_insert(key, &route);
	return route.real;
}
