/* SPDX-License-Identifier: MIT
 *
 * What is known of how this process reaches the drivers, kept so that a lookup can add to
 * it: no memory, no lock, bounded, before there is a ledger and after. The recorder writes
 * what is new into the ledger's FACTS chunk from time to time.
 */
#ifndef GPULEAK_FACTS_H
#define GPULEAK_FACTS_H

#include <stdint.h>

#include "ledger/lock.h"

struct recorder;

/* X(NAME, the word in the ledger). The first ones are the routes; their subject is the API,
 * and how often they were taken tells a runtime that looks up everything there is. */
#define FACTS(X)                                                                             \
	X(LINKED, "linked")          /* a call linked to the name, or to our export of it */ \
	X(DLSYM, "dlsym")                                                                    \
	X(PROC_ADDRESS, "cuGetProcAddress")                                                  \
	X(EXTENSION, "extension")    /* OpenCL's two extension lookups */                    \
	X(LAYER, "layer")            /* OpenCL's loader called us as a layer */              \
	X(UNTRACKED, "untracked")    /* subject: a function that was looked up */            \
	X(UNCLASSED, "unclassed")                                                            \
	X(REFERRED_UNTRACKED, "referred-untracked") /* MODULE is linked to it */             \
	X(REFERRED_UNCLASSED, "referred-unclassed")                                        \
	X(IGNORED, "ignored")                                                                \
	X(DEEPBIND, "deepbind")      /* subject: the API that MODULE reaches past us */      \
	X(NAMESPACE, "namespace")    /* subject: the API whose driver is in another one */   \
	X(EXPORT_TABLE, "export-table")             /* subject: its uuid */                  \
	X(KNOWN_EXPORT_TABLE, "known-export-table") /* the CUDA runtime's own use */         \
	X(NO_LOADER, "no-loader")    /* MODULE is a vendor's OpenCL, used without a loader */ \
	X(DEEPBIND_OPEN, "deepbind-open")           /* subject: a file, by MODULE */         \
	X(DEEPBIND_COVERED, "deepbind-covered")                                              \
	X(NAMESPACE_OPEN, "namespace-open")                                                  \
	X(PYTHON, "python")          /* subject: version of MODULE, whose frames are read */ \
	X(PYTHON_LEFT, "python-left") /* the same, but they are not, or not all: the reason */ \
	X(LOST, "lost")              /* facts that found no room */

enum fact_kind {
#define X(name, word) FACT_##name,
	FACTS(X)
#undef X
	FACT_KINDS
};

#define FACTS_MAX 1024 /* below LEDGER_FACTS_MAX */

/* Modules that have slots for a driver's functions, as of the loader's LOADS: while nothing
 * new is loaded only those are looked at again. In the recorder. */
#define LOOKED_MAX 32
struct modules_looked_at {
	struct lock lock;
	uint64_t loads;
	unsigned int count; /* above LOOKED_MAX: more than there is room for */
	uintptr_t base[LOOKED_MAX];
};

/* What the present ledger has of them; in the recorder. */
struct facts_written {
	struct lock lock;
	uint32_t noted;            /* state of the table when it was last written */
	uint32_t kind[FACT_KINDS]; /* refs of the words */
	uint32_t ref[FACTS_MAX];   /* of the records */
};

/* MODULE is a path, "" for the program itself, NULL for none; SUBJECT and MODULE are copied
 * (and cut), REASON must live for ever and may be NULL. Any thread, any time. */
void fact_note(enum fact_kind kind, const char *subject, const char *module, const char *reason);

/* Writes what is new. Not from a lookup. */
void facts_write(struct recorder *recorder);

#endif
