/* SPDX-License-Identifier: MIT
 *
 * Takes the verdict before a driver's library begins to end. Intercepts the registration of exit
 * handlers, and adds a handler of its own behind each handler of a driver's library. exit() runs
 * handlers in reverse order, so gpuleak's runs right before the driver's first one. Must not change
 * what the application registers.
 */
#include "interpose/process/reporter.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>

#include "interpose/base/export.h"
#include "interpose/base/own_stack.h"
#include "interpose/block/block_state.h"
#include "interpose/block/deferred_totals.h"
#include "interpose/dispatch/api.h"
#include "interpose/dispatch/coverage.h"
#include "interpose/dispatch/loader.h"
#include "interpose/guard/patterns.h"
#include "interpose/opencl/opencl_driver.h"
#include "interpose/process/service_thread.h"

typedef int register_cxa(void (*handler)(void *), void *argument, void *module);
typedef int register_on_exit(void (*handler)(int, void *), void *argument);

register_cxa __cxa_atexit;

static register_cxa *real_cxa_atexit;
static register_on_exit *real_on_exit;

void reporter_settle(void *data)
{
	struct recorder *recorder = data;

	deferred_wait(recorder);
	coverage_look_everywhere(recorder->looked_at, true);
}

void verdict_take(enum ending ending)
{
	struct recorder *recorder = recorder_of_process();
	uint32_t not_yet = ENDING_NOT;

	if (!recorder || recorder_ending(recorder) != ENDING_NOT)
		return;
	if (recorder_now()) { /* not if recording stopped: a thread left its work half done */
		patterns_check(NULL, PATTERNS_AT_EXIT);
		apis_read_pools(LEDGER_PARKED_EXIT, 0);
		aside(reporter_settle, recorder);
		block_keep_parents(recorder);
		static_objects_search(recorder);
	}
	if (atomic_compare_exchange_strong(&recorder->ending, &not_yet, (uint32_t)ending))
		service_thread_wake();
}

bool driver_may_have_ended(const struct recorder *recorder)
{
	return recorder_ending(recorder) == ENDING_DRIVER ||
	       (recorder_ending(recorder) != ENDING_NOT && opencl_was_used());
}

/* ADDRESS lies in the driver's library, or in no library if that was unloaded meanwhile. */
static void before_driver_ends(int status, void *address)
{
	KEEP_ERRNO;

	(void)status;
	if (lookup_is_of_driver(address))
		verdict_take(ENDING_DRIVER);
}

/* Finds the real functions. A constructor that runs before gpuleak's may be the first caller. */
__attribute__((constructor(102))) static void find_registrations(void)
{
	void *found_on_exit = lookup_real(RTLD_NEXT, "on_exit");
	void *found = lookup_real(RTLD_NEXT, "__cxa_atexit");

	shared_publish(real_on_exit, (register_on_exit *)found_on_exit);
	shared_publish(real_cxa_atexit, (register_cxa *)found);
}

/* ADDRESS identifies the library that has registered a handler. gpuleak's handler is no part of
 * that library, so a dlclose() does not run it. */
static void registered(const void *address)
{
	if (real_on_exit && lookup_is_of_driver(address))
		real_on_exit(before_driver_ends, (void *)(uintptr_t)address);
}

EXPORT int __cxa_atexit(void (*handler)(void *), void *argument, void *module)
{
	int r;

	if (!shared_load_acquire(real_cxa_atexit))
		find_registrations();
	r = real_cxa_atexit ? real_cxa_atexit(handler, argument, module) : -1;
	if (r == 0 && argument)
		static_object_made(argument);
	if (r == 0)
		registered(module ? module : (const void *)(uintptr_t)handler);
	return r;
}

EXPORT int on_exit(void (*handler)(int, void *), void *argument)
{
	int r;

	if (!shared_load_acquire(real_on_exit))
		find_registrations();
	r = real_on_exit ? real_on_exit(handler, argument) : -1;
	if (r == 0)
		registered((const void *)(uintptr_t)handler);
	return r;
}
