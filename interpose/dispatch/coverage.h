/* SPDX-License-Identifier: MIT
 *
 * Records how this process reaches the drivers, and which ways bypass gpuleak. Lookups and
 * wrappers report what they see. Other ways are found by a scan of the loaded modules.
 */
#pragma once

#include "interpose/dispatch/observations.h"
#include "interpose/dispatch/hooks.h"
#include "ledger/lock.h"

/* Records that CALLER looked up a function of API by ROUTE and got gpuleak's wrapper. Safe in
 * lookups. */
void coverage_route(enum observation_kind route, enum api api, const void *caller);
/* Records that a lookup returned the driver's function NAME, which has no hook, to CALLER. Safe in
 * lookups. */
void coverage_saw(const char *name, const void *caller);
/* Records that a call arrived whose caller is linked to a function of API (in effect, to gpuleak's
 * export). */
void coverage_called(enum api api);
/* Records that CALLER is about to open FILE with RTLD_DEEPBIND. CLEARED: gpuleak removes the flag.
 * Called by the exported dlopen; the rules of a lookup apply. */
void coverage_deepbind(const char *file, const void *caller, bool cleared);
/* The same for a FILE that is about to be opened in another namespace. */
void coverage_namespace(const char *file, const void *caller);
/* Records that CALLER requested the driver's internal function table UUID (16 bytes). */
void coverage_export_table(const unsigned char *uuid, const void *caller);

/* The modules that have relocations for a driver's functions. `loads` is the loader's count of
 * loads when they were found: as long as that is the same, only these modules are scanned again.
 * Each recorder has its own. */
#define LOOKED_MAX 32
struct modules_looked_at {
	struct lock lock;
	uint64_t loads;
	unsigned int count; /* above LOOKED_MAX: some modules did not fit into `base` */
	uintptr_t base[LOOKED_MAX];
};

/* Scans the loaded modules and records how they reach the drivers. KNOWN belongs to the recorder.
 * Calls the loader. */
void coverage_look(struct modules_looked_at *known);
/* Like coverage_look(), but also scans other namespaces, if there may be any or AT_END is true.
 * Called before modules are unloaded, and with AT_END at the end of the process: then it also
 * records linked calls without a known module. */
void coverage_look_everywhere(struct modules_looked_at *known, bool at_end);
/* The same for a process without a recorder, before modules are unloaded. */
void coverage_look_unrecorded(void);
/* For the end of a process that has no recorder: returns how a module bypasses gpuleak, or NULL. */
const struct observation *coverage_bypass(void);
