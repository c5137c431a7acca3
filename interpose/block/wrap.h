/* SPDX-License-Identifier: MIT
 *
 * What the wrappers of every API have in common: how one begins, and how it calls the driver.
 * Macros, because each must stand in the wrapper's own frame: CALLER, the return address and
 * the frame that marks a driver's call are taken there. What a wrapper records is a function.
 */
#ifndef GPULEAK_WRAP_H
#define GPULEAK_WRAP_H

#include "interpose/block/blocks.h"
#include "interpose/dispatch/resolve.h"
#include "interpose/block/driver_call.h"

/* Declares what the verb of row SYMBOL works with: hook, site and route. FIND is resolve_direct
 * or resolve_driver; the row's numbers are of SPACE. */
#define WRAP_BEGIN(symbol, find, space)                                                     \
	struct hook *hook = &hooks[HOOK_##symbol];                                          \
	if (__builtin_expect(thread_self.call_frame != 0, 0))                               \
		record_call_left(RECORD_FRAME);                                             \
	struct route route = find(hook);                                                    \
	struct call call = { hook, CALLER, space };                                         \
	(void)call

/* R = CALL, the driver's, during which this thread is marked as inside a driver's call. */
#define WRAP_CALL(r, driver_call)                                                           \
	do {                                                                                \
		record_call();                                                              \
		(r) = (driver_call);                                                        \
		record_call_done();                                                         \
	} while (0)

/* The same of a call that ends what FREEING says. */
#define WRAP_CALL_FREEING(r, driver_call, freeing)                                          \
	do {                                                                                \
		record_call_freeing(freeing);                                               \
		(r) = (driver_call);                                                        \
		record_call_done();                                                         \
	} while (0)

#endif
