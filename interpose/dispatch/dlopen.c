/* SPDX-License-Identifier: MIT
 *
 * The part of the exported dlopen and dlmopen (dlopen_ARCH.S) that runs before the jump to the real
 * function. Records files that are opened in a way that lets their calls bypass gpuleak. Removes
 * RTLD_DEEPBIND from the flags if GPULEAK_DEEPBIND=cover is set. The rules of lookup.c apply: no
 * malloc, no lock, no log. The caller itself is about to call the loader, so
 * apis_libraries_changed() may call it, too.
 */
#include <dlfcn.h>
#include <stddef.h>

#include "interpose/base/config.h"
#include "interpose/dispatch/api.h"
#include "interpose/dispatch/coverage.h"
#include "interpose/dispatch/find_module.h"
#include "interpose/dispatch/loader.h"
#include "ledger/shared.h"

typedef void *open_file(const char *file, int flags);
typedef void *open_file_in(Lmid_t where, const char *file, int flags);

extern open_file *opens_real_dlopen __attribute__((visibility("hidden")));
extern open_file_in *opens_real_dlmopen __attribute__((visibility("hidden")));
open_file *opens_real_dlopen;
open_file_in *opens_real_dlmopen;

int opens_before(const char *file, int flags, const void *caller)
	__attribute__((visibility("hidden")));
void opens_before_in(Lmid_t where, const char *file, int flags, const void *caller)
	__attribute__((visibility("hidden")));

static void *cannot_open(const char *file, int flags)
{
	(void)file, (void)flags;
	return NULL;
}

static void *cannot_open_in(Lmid_t where, const char *file, int flags)
{
	(void)where, (void)file, (void)flags;
	return NULL;
}

/* Finds the real functions, in libc if no other library has them. Also called by the first dlopen,
 * which may precede this constructor. */
__attribute__((constructor(102))) static void find_real_functions(void)
{
	open_file *found = (open_file *)lookup_real(RTLD_NEXT, "dlopen");
	open_file_in *found_in = (open_file_in *)lookup_real(RTLD_NEXT, "dlmopen");

	shared_publish(opens_real_dlmopen, found_in ? found_in : cannot_open_in);
	shared_publish(opens_real_dlopen, found ? found : cannot_open);
}

int opens_before(const char *file, int flags, const void *caller)
{
	bool clear = config.deepbind == OPTION_DEEPBIND_COVER;

	/* The file may get the place of one that libc's dlclose() unloaded without gpuleak's. */
	module_forget();
	if (!shared_load_acquire(opens_real_dlopen))
		find_real_functions();
	if (resolve_is_ours(caller))
		return flags;
	apis_libraries_changed(); /* libraries that earlier calls have loaded */
	if (!(flags & RTLD_DEEPBIND))
		return flags;
	coverage_deepbind(file, caller, clear);
	return clear ? flags & ~RTLD_DEEPBIND : flags;
}

void opens_before_in(Lmid_t where, const char *file, int flags, const void *caller)
{
	module_forget(); /* as above */
	if (!shared_load_acquire(opens_real_dlmopen))
		find_real_functions();
	if (where != LM_ID_BASE)
		coverage_namespace(file, caller);
	else if (flags & RTLD_DEEPBIND)
		coverage_deepbind(file, caller, false);
}
