/* SPDX-License-Identifier: MIT
 *
 * Observations of how this process reaches the drivers. A lookup can add to this table of fixed
 * size: it allocates nothing, takes no lock, and needs no ledger. From time to time the recorder
 * writes new observations into the ledger (write_observations.h).
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "ledger/format.h"

/* X(NAME, its name in the ledger). The first six are routes to a driver; their subject is the API.
 * A high count of a route shows a runtime that looks up every function. */
#define OBSERVATIONS(X)                                                                          \
	X(LINKED, "linked")               /* a call whose caller is linked to the name */        \
	X(DLSYM, "dlsym")                                                                        \
	X(PROC_ADDRESS, "cuGetProcAddress")                                                      \
	X(EXTENSION, "extension")         /* OpenCL's two extension lookups */                   \
	X(LAYER, "layer")                 /* OpenCL's loader called gpuleak as a layer */        \
	X(ATTACHED, "attached")           /* an attachment replaced the driver's addresses */    \
	X(UNTRACKED, "untracked")         /* subject: a function that was looked up */           \
	X(UNCLASSED, "unclassed")                                                                \
	X(REFERRED_UNTRACKED, "referred-untracked") /* MODULE is linked to it */                 \
	X(REFERRED_UNCLASSED, "referred-unclassed")                                              \
	X(IGNORED, "ignored")                                                                    \
	X(DEEPBIND, "deepbind")           /* subject: API; MODULE bypasses gpuleak for it */     \
	X(IN_FRONT, "in-front")           /* subject: API; MODULE has its functions, before us */ \
	X(NAMESPACE, "namespace")         /* subject: API with a driver in another namespace */  \
	X(EXPORT_TABLE, "export-table")   /* subject: UUID of the driver's table */              \
	X(KNOWN_EXPORT_TABLE, "known-export-table") /* used by the CUDA runtime */               \
	X(NO_LOADER, "no-loader")         /* MODULE: vendor's OpenCL, used without a loader */   \
	X(DEEPBIND_OPEN, "deepbind-open") /* subject: a file that MODULE opens */                \
	X(DEEPBIND_COVERED, "deepbind-covered")                                                  \
	X(NAMESPACE_OPEN, "namespace-open")                                                      \
	X(PYTHON, "python")               /* subject: version of MODULE, a Python interpreter */ \
	X(PYTHON_LEFT, "python-left")     /* some or all frames are not read; has a reason */    \
	X(JAVA_LEFT, "java-left")         /* the same for frames of Java */                      \
	X(STATIC_OBJECT, LEDGER_OBSERVED_STATIC_OBJECT)                                          \
	X(LOST, "lost")                   /* observations that were lost: the table is full */

enum observation_kind {
#define X(name, word) OBSERVED_##name,
	OBSERVATIONS(X)
#undef X
	OBSERVATION_KINDS
};

#define OBSERVATIONS_MAX 1024 /* below LEDGER_OBSERVATIONS_MAX */

#define OBSERVATION_SUBJECT_BYTES 64
#define OBSERVATION_MODULE_BYTES 192

struct observation {
	_Atomic uint64_t key;   /* 0: unused */
	_Atomic uint32_t count; /* how often it was observed */
	enum observation_kind kind;
	bool has_module;
	const char *reason;
	char subject[OBSERVATION_SUBJECT_BYTES];
	char module[OBSERVATION_MODULE_BYTES]; /* if the path is longer: its end */
};

/* Adds an observation, or counts it again. MODULE is a path, "" for the program itself, or NULL.
 * SUBJECT and MODULE are copied, and cut if they are too long. REASON is stored as a pointer that
 * must stay valid; it may be NULL. Safe in any thread at any time. */
void observation_record(enum observation_kind kind, const char *subject, const char *module,
			const char *reason);

/* Counts that trouble WHAT occurred in a lookup. Safe in any thread at any time. */
void observe_trouble(enum ledger_trouble what);

/* ---- for write_observations.c ---- */

/* Returns a number that increases with every new observation and every trouble. */
uint32_t observations_recorded(void);
/* The first returns how many observations were lost because the table was full. The second returns
 * how often trouble WHAT was counted. */
uint32_t observations_lost(void);
uint32_t observations_troubles(enum ledger_trouble what);
/* Returns the observation at index I of the table. I must be below OBSERVATIONS_MAX. Returns NULL
 * if that entry is unused, or if a thread is still writing it. Only `count` changes afterwards: a
 * thread that makes the same observation again increases it. */
const struct observation *observation_at(unsigned int i);
/* Returns the name of KIND in the ledger. */
const char *observation_kind_name(enum observation_kind kind);
