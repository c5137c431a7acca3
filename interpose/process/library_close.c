/* SPDX-License-Identifier: MIT
 *
 * The exported dlclose(). Before a library is unloaded, records which driver functions it called
 * without gpuleak. Afterwards, the other folders clear what they stored about the library.
 */
#include <dlfcn.h>
#include <stdbool.h>

#include "interpose/base/export.h"
#include "interpose/base/own_stack.h"
#include "interpose/dispatch/api.h"
#include "interpose/dispatch/resolve.h"
#include "interpose/dispatch/coverage.h"
#include "interpose/dispatch/find_module.h"
#include "interpose/recorder/recorder.h"
#include "interpose/recorder/write_observations.h"
#include "interpose/stack/modules.h"
#include "interpose/stack/interpreters.h"
#include "interpose/stack/python.h"
#include "interpose/stack/walk.h"
#include "ledger/shared.h"

static void look_everywhere(void *recorder)
{
	struct recorder *entered = recorder;

	coverage_look_everywhere(entered->looked_at, false);
	observations_write(entered);
}

/* Records which driver functions the loaded libraries call without gpuleak, since that cannot be
 * found once a library is unloaded. */
static void look_before_it_goes(const struct recorder *recorder)
{
	LEAVE_AT_END struct recorder *entered =
		recorder && !thread_self.busy ? recorder_enter() : NULL;

	if (!recorder)
		coverage_look_unrecorded();
	if (entered)
		aside(look_everywhere, entered);
}

EXPORT int dlclose(void *handle)
{
	static int (*real)(void *);
	struct recorder *recorder = recorder_now();
	int r;

	if (!real)
		real = (int (*)(void *))resolve_next("dlclose");
	callers_forget();
	module_forget();
	look_before_it_goes(recorder);
	python_forget();
	interpreters_forget();
	r = real ? real(handle) : -1;
	module_forget();
	resolve_forget_unloaded();
	apis_after_dlclose();
	apis_libraries_changed();
	if (recorder) {
		shared_store(recorder->modules->stale, 1);
		walk_forget();
	}
	return r;
}
