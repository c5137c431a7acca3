/* SPDX-License-Identifier: MIT
 *
 * The toy API as a folder of interpose/ would have it: its wrappers, from its rows, a pool of freed
 * blocks, and its struct api_ops. Nothing else of gpuleak knows it.
 */
#include "interpose/base/export.h"
#include "interpose/base/config.h"
#include "interpose/block/block_table.h"
#include "interpose/block/limit.h"
#include "interpose/block/pool_counters.h"
#include "interpose/block/wrap.h"
#include "toy.h"

#define API_IGNORED_ROWS "interpose/toy/toy_ignored.def"
#define API_OTHER_ROWS "interpose/toy/toy_other.def"
#include "interpose/dispatch/api_tables.h"

#define TOY_OK (r == TOY_SUCCESS)

static enum outcome outcome_of(int r)
{
	return r == TOY_SUCCESS ? OUTCOME_DONE : OUTCOME_INVALID;
}

/* ---- the pool: freed blocks, which the driver does not know to be free ---- */

#define CACHED_MAX 8
static struct {
	struct lock lock;
	struct cached_block {
		void *address;
		uint64_t bytes; /* 0: the element is unused */
	} cached[CACHED_MAX];
} pool;

static struct ledger_pool *pool_counters(void)
{
	return config.pool == OPTION_POOL_OFF ? NULL
					      : pools_record_row("Toy", "device", TOY_DEVICE);
}

/* Returns an element with BYTES, or NULL. Locking: the caller holds the pool's lock. */
static struct cached_block *cached_of(uint64_t bytes)
{
	for (int i = 0; i < CACHED_MAX; i++)
		if (pool.cached[i].bytes == bytes)
			return &pool.cached[i];
	return NULL;
}

static void *pool_alloc(uint64_t bytes)
{
	struct ledger_pool *counters = pool_counters();
	struct cached_block *cached;
	void *ret = NULL;

	if (!counters || !bytes)
		return NULL;
	lock_take(&pool.lock);
	cached = cached_of(bytes);
	if (cached) {
		ret = cached->address;
		cached->bytes = 0;
		pools_count(&counters->hits, 1);
		pools_count(&counters->cached, -bytes);
	} else {
		pools_count(&counters->native_allocs, 1);
		pools_count(&counters->reserved, bytes);
	}
	lock_give(&pool.lock);
	return ret;
}

static bool pool_free(void *address, const struct freeing *freeing)
{
	struct ledger_pool *counters = freeing->block ? pool_counters() : NULL;
	struct cached_block *cached;

	if (!counters)
		return false;
	lock_take(&pool.lock);
	cached = cached_of(0);
	if (cached) {
		*cached = (struct cached_block){ address, freeing->bytes };
		pools_count(&counters->frees, 1);
		pools_count(&counters->cached, freeing->bytes);
	}
	lock_give(&pool.lock);
	return cached != NULL;
}

static int pool_blocks(void)
{
	int count = 0;

	for (int i = 0; i < CACHED_MAX; i++)
		count += pool.cached[i].bytes != 0;
	return count;
}

static uint64_t give_back(void)
{
	int (*driver_free)(void *) = (int (*)(void *))resolve_driver(&hooks[HOOK_toyFree]).real;
	struct ledger_pool *counters = pool_counters();
	uint64_t bytes = 0;

	lock_take(&pool.lock);
	for (int i = 0; i < CACHED_MAX && counters; i++) {
		if (pool.cached[i].bytes && driver_free(pool.cached[i].address) == TOY_SUCCESS)
			bytes += pool.cached[i].bytes;
		pool.cached[i].bytes = 0;
	}
	if (counters) {
		pools_count(&counters->cached, -bytes);
		pools_count(&counters->reserved, -bytes);
	}
	lock_give(&pool.lock);
	return bytes;
}

/* ---- the wrappers ---- */

#define VERB_ALLOC(driver_call, made, address, bytes)                                       \
	int r;                                                                              \
	if (LIMITS_REFUSE(&call, LIMITS_CURRENT, bytes))                                    \
		return TOY_OUT_OF_MEMORY;                                                   \
	WRAP_CALL(r, driver_call);                                                          \
	if (made)                                                                           \
		record_made(&call, (uintptr_t)(address), (bytes), TOY_CONTEXT, TOY_DEVICE, 0); \
	limits_done();                                                                      \
	return r;

#define VERB_ALLOC_POOLED(driver_call, made, key, bytes)                                    \
	VERB_ALLOC((*address = pool_alloc(bytes)) ? TOY_SUCCESS : (driver_call), made, key, bytes)

/* A handle that is not an address. */
#define VERB_MAKE(driver_call, made, handle, bytes)                                         \
	int r;                                                                              \
	call.space = hook->object ? space_of_object(hook) : SPACE_TOY_IMAGE;                \
	WRAP_CALL(r, driver_call);                                                          \
	if (made)                                                                           \
		record_made(&call, (uintptr_t)(handle), (bytes), 0, TOY_DEVICE, 0);         \
	return r;

#define VERB_END(driver_call, made, handle, bytes)                                          \
	struct freeing freeing;                                                             \
	int r;                                                                              \
	call.space = hook->object ? space_of_object(hook) : SPACE_TOY_IMAGE;                \
	record_releasing(&call, (uintptr_t)(handle), &freeing);                             \
	WRAP_CALL_FREEING(r, driver_call, &freeing);                                        \
	record_released(&call, &freeing, outcome_of(r), r);                                 \
	return r;

#define VERB_SUBMIT(driver_call, made, key, bytes) return driver_call;
#define VERB_LIVE(driver_call, made, key, bytes) return (driver_call) - pool_blocks();

#define VERB_FREE(driver_call, made, address, bytes)                                        \
	struct freeing freeing;                                                             \
	int r;                                                                              \
	record_freeing(&call, (uintptr_t)(address), &freeing);                              \
	WRAP_CALL_FREEING(r, pool_free(address, &freeing) ? TOY_SUCCESS : (driver_call),    \
			  &freeing);                                                        \
	record_freed(&call, &freeing, outcome_of(r), r);                                     \
	return r;

static int end_context(struct call *call_of, void *real, int context)
{
	struct hook *hook = call_of->hook;
	struct call call = *call_of;

	VERB_END(DRIVER_CALL(real, int (*)(int), (context)), r == TOY_SUCCESS, context, 0)
}

#define VERB_DESTROY(driver_call, made, context, bytes)                                     \
	int r = end_context(&call, route.real, context);                                    \
	if (made)                                                                           \
		record_context_gone(&call, (uint64_t)(context));                            \
	return r;

#define WRAPPER(symbol, find, driver_call, verb, made, key, size)                           \
	{                                                                                   \
		WRAP_BEGIN(symbol, find, SPACE_MEMORY);                                     \
		if (!route.real)                                                            \
			return TOY_INVALID;                                                 \
		if (!route.record)                                                          \
			return driver_call;                                                 \
		VERB_##verb(driver_call, made, key, size)                                   \
	}

#define HOOK(symbol, returns, parameters, arguments, verb, made, kind, key, size)           \
	EXPORT returns symbol parameters                                                    \
	WRAPPER(symbol, resolve_direct, DRIVER_CALL(route.real, returns(*) parameters, arguments), \
		verb, made, key, size)                                                      \
	static returns looked_up_##symbol parameters                                        \
	WRAPPER(symbol, resolve_driver, DRIVER_CALL(route.real, returns(*) parameters, arguments), \
		verb, made, key, size)
#define ROWS_OF "interpose/toy/toy_rows.def"
#include "interpose/dispatch/hooks.def"

static void *const wrappers[] = {
#define HOOK(symbol, ...) [HOOK_##symbol - HOOK_FIRST_TOY] = (void *)looked_up_##symbol,
#define ROWS_OF "interpose/toy/toy_rows.def"
#include "interpose/dispatch/hooks.def"
};

static int current_device(void)
{
	return TOY_DEVICE;
}

static uint64_t device_total(int device)
{
	size_t (*ask)(int) = (size_t(*)(int))resolve_used(USED_toyDeviceTotal);

	return ask ? ask(device) : 0;
}

const struct api_ops api_ops_TOY = {
	.title = "Toy",
	.prefix = "toy",
	.libraries = { "libtoy.so" },
	.memory = LEDGER_MEMORY_DEVICE,
	API_TABLES,
	.wrappers = wrappers,
	.current_device = current_device,
	.device_total = device_total,
	.give_back = give_back,
};
