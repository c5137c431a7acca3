/* SPDX-License-Identifier: MIT
 *
 * What is known of how this process reaches the drivers, kept so that a lookup can add to
 * it: no memory, no lock, bounded, before there is a ledger and after. The recorder writes
 * what is new into the ledger from time to time (write_observations.h).
 */
#ifndef GPULEAK_FACTS_H
#define GPULEAK_FACTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "ledger/format.h"

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

#define FACT_SUBJECT_BYTES 64
#define FACT_MODULE_BYTES 192

struct fact {
	_Atomic uint64_t key;   /* 0: unused */
	_Atomic bool ready;
	_Atomic uint32_t count; /* how often it was noted */
	enum fact_kind kind;
	bool has_module;
	const char *reason;
	char subject[FACT_SUBJECT_BYTES];
	char module[FACT_MODULE_BYTES]; /* its end, if it is longer */
};

/* MODULE is a path, "" for the program itself, NULL for none; SUBJECT and MODULE are copied
 * (and cut), REASON must live for ever and may be NULL. Any thread, any time. */
void fact_note(enum fact_kind kind, const char *subject, const char *module, const char *reason);

/* Counts a trouble that was found in a lookup. Any thread, any time. */
void fact_trouble(enum ledger_trouble what);

/* ---- for write_observations.c ---- */

/* Goes up with every new fact and every trouble. */
uint32_t facts_noted(void);
/* How many facts found no room, and how often WHAT was counted. */
uint32_t facts_lost(void);
uint32_t facts_troubles(enum ledger_trouble what);
/* The fact at place I below FACTS_MAX, which never changes but for its count; NULL: none yet. */
const struct fact *fact_at(unsigned int i);
/* The ledger's word for KIND. */
const char *fact_word(enum fact_kind kind);

#endif
