/* SPDX-License-Identifier: MIT
 *
 * What the wrappers of every API have in common: how a wrapper begins, and how it calls the driver.
 * These are macros, because they take CALLER, the return address and the address of the frame from
 * the wrapper's own frame. What a wrapper records is a function.
 */
#pragma once

#include "interpose/block/blocks.h"
#include "interpose/dispatch/resolve.h"
#include "interpose/block/driver_call.h"

/* Declares the variables of the wrapper for the row SYMBOL: hook, route and call. FIND is
 * resolve_direct, resolve_driver or resolve_guarded. SPACE is the space of the addresses or handles
 * of the call. */
#define WRAP_BEGIN(symbol, find, space) WRAP_BEGIN_FOR(CALLER, symbol, find, space)
#define WRAP_BEGIN_FOR(caller_, symbol, find, space)                                        \
	struct hook *hook = &hooks[HOOK_##symbol];                                          \
	if (__builtin_expect(thread_self.call_frame != 0, 0))                               \
		record_call_left(RECORD_FRAME);                                             \
	const struct caller *caller = caller_;                                              \
	struct route route = find(hook);                                                    \
	struct call call = { hook, caller, space };                                         \
	(void)call

/* The value of a wrapper whose FIND found no function. If the call is guarded, the result of its
 * guarded wrapper, which has TYPE; otherwise MISSING. */
#define WRAP_MISSING(type, arguments, missing)                                              \
	(guarded_linked(hook, caller) ? DRIVER_CALL(hook->wrapper, type, arguments) : missing)

/* Evaluates DRIVER_CALL, the call of the driver, and stores its result in R. Meanwhile this thread
 * is marked as inside a driver's call. */
#define WRAP_CALL(r, driver_call)                                                           \
	do {                                                                                \
		record_call();                                                              \
		(r) = (driver_call);                                                        \
		record_call_done();                                                         \
	} while (0)

/* The same for a call that frees FREEING's block. */
#define WRAP_CALL_FREEING(r, driver_call, freeing)                                          \
	do {                                                                                \
		record_call_freeing(freeing);                                               \
		(r) = (driver_call);                                                        \
		record_call_done();                                                         \
	} while (0)

/* Defines NAME, a function of the HAND row SYMBOL. A call that is to be recorded goes to FUNCTION,
 * with &call and the driver's function before ARGUMENTS. ENTER is a statement that runs before
 * FUNCTION or the driver, MISSING the result if there is no such function in the process. */
#define WRAP_HAND(name, symbol, find, returns, parameters, arguments, function, space, enter, \
		  missing)                                                          \
	returns name parameters                                                             \
	{                                                                                   \
		struct hook *hook = &hooks[HOOK_##symbol];                                  \
		const struct caller *caller = CALLER;                                       \
		struct route route = find(hook);                                            \
		struct call call = { hook, caller, space };                                 \
		(void)call;                                                                 \
		if (!route.real)                                                            \
			return WRAP_MISSING(returns(*) parameters, arguments, missing);     \
		enter;                                                                      \
		return route.record ? WRAP_HAND_CALL(function, WRAP_BARE arguments)         \
				    : DRIVER(symbol, route.real) arguments;                 \
	}
#define WRAP_BARE(...) __VA_ARGS__
#define WRAP_HAND_CALL(function, ...) WRAP_HAND_CALL_WITH(function, __VA_ARGS__)
#define WRAP_HAND_CALL_WITH(function, ...) function(&call, route.real __VA_OPT__(, ) __VA_ARGS__)
/* The FIND of guarded wrappers, for WRAP_BEGIN and WRAP_HAND. */
#define resolve_guarded(hook)                                                               \
	resolve_guarded_from(hook, __builtin_return_address(0), &caller)

/* The first parameter of a FUNCTION that does not need it. */
#define NO_CALL __attribute__((unused)) struct call *call
