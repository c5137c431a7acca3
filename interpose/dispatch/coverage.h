/* SPDX-License-Identifier: MIT
 *
 * Which roads lead to the drivers in this process, and which of them lead past us. Lookups
 * and wrappers tell what they see; the rest is looked for among the loaded modules.
 */
#ifndef GPULEAK_COVERAGE_H
#define GPULEAK_COVERAGE_H

#include "interpose/dispatch/observations.h"
#include "interpose/dispatch/hooks.h"
#include "ledger/lock.h"

/* CALLER asked for a function of API by ROUTE and got it. For lookups too. */
void coverage_route(enum fact_kind route, enum api api, const void *caller);
/* CALLER was given the driver's function NAME, which is no hook's. For lookups too. */
void coverage_saw(const char *name, const void *caller);
/* A call linked to a name of API, or to our export of it, arrived. */
void coverage_called(enum api api);
/* FILE is about to be opened by CALLER with RTLD_DEEPBIND (CLEARED: without it after all),
 * or in another namespace. From the exported dlopen: as a lookup. */
void coverage_deepbind(const char *file, const void *caller, bool cleared);
void coverage_namespace(const char *file, const void *caller);
/* CALLER asked for the driver's internal table UUID (16 bytes). */
void coverage_export_table(const unsigned char *uuid, const void *caller);

/* Modules that have slots for a driver's functions, as of the loader's LOADS: while nothing
 * new is loaded only those are looked at again. One for each recorder. */
#define LOOKED_MAX 32
struct modules_looked_at {
	struct lock lock;
	uint64_t loads;
	unsigned int count; /* above LOOKED_MAX: more than there is room for */
	uintptr_t base[LOOKED_MAX];
};

/* Looks at the loaded modules and notes what it finds. Asks the loader. KNOWN is the recorder's. */
void coverage_look(struct modules_looked_at *known);
/* The same and, where there may be some, at other namespaces: before modules go away. */
void coverage_look_everywhere(struct modules_looked_at *known, bool at_end);

#endif
