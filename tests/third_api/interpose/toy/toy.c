/* SPDX-License-Identifier: MIT
 *
 * The toy API as a folder of interpose/ would have it: its wrappers, from its rows, and its struct
 * api_ops. Nothing else of gpuleak knows it.
 */
#include "interpose/base/export.h"
#include "interpose/block/limit.h"
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

#define VERB_ALLOC(driver_call, made, address, bytes)                                       \
	int r;                                                                              \
	if (LIMITS_REFUSE(&call, LIMITS_CURRENT, bytes))                                    \
		return TOY_OUT_OF_MEMORY;                                                   \
	WRAP_CALL(r, driver_call);                                                          \
	if (made)                                                                           \
		record_made(&call, (uintptr_t)(address), (bytes), TOY_CONTEXT, TOY_DEVICE, 0); \
	limits_done();                                                                      \
	return r;

#define VERB_FREE(driver_call, made, address, bytes)                                        \
	struct freeing freeing;                                                             \
	int r;                                                                              \
	record_freeing(&call, (uintptr_t)(address), &freeing);                              \
	WRAP_CALL_FREEING(r, driver_call, &freeing);                                        \
	record_freed(&call, &freeing, outcome_of(r), r);                                     \
	return r;

#define VERB_DESTROY(driver_call, made, context, bytes)                                     \
	int r = (driver_call);                                                              \
	if (made)                                                                           \
		record_context_gone(hook, (uint64_t)(context));                             \
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
	API_TABLES,
	.wrappers = wrappers,
	.current_device = current_device,
	.device_total = device_total,
};
