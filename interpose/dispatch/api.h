/* SPDX-License-Identifier: MIT
 *
 * What gpuleak asks an API outside that API's own folder: one struct api_ops for each line of
 * apis.def. The folder defines it as api_ops_NAME; the linker finds it.
 */
#ifndef GPULEAK_API_H
#define GPULEAK_API_H

#include <stddef.h>

#include "interpose/dispatch/classify.h"
#include "interpose/dispatch/hooks.h"

/* A function of the API that takes or gives memory and has no row. Fixed arrays, here and below,
 * so that a process without a GPU pays no relocation for them. */
#define API_NAME_BYTES 56
#define API_REASON_BYTES 96
struct api_ignored {
	char name[API_NAME_BYTES];
	char reason[API_REASON_BYTES];
	enum class class;
};

struct api_ops {
	const char *title;  /* for people, and in the ledger */
	const char *prefix; /* with which all names begin; a capital letter follows */
	/* File names of the driver or of its loaders begin with one of these. The first is what is
	 * opened by name. */
	const char *libraries[4];
	/* Libraries whose file names begin with this work on the driver's behalf. NULL: none. */
	const char *internal;
	/* An implementation exports this to its loader, and a loader does not. NULL: no loaders. */
	const char *vendor_symbol;
	/* A handle may be given to an object of another sort at once. */
	bool reuses_handles;
	/* Functions without a row: those that have to do with memory; those that have not, in the
	 * order of strcmp(); those that submit work that the pool does not see. */
	const struct api_ignored *ignored;
	const char (*other)[API_NAME_BYTES];
	const char (*unseen)[API_NAME_BYTES];
	size_t ignored_count, other_count, unseen_count;
	bool unknown_submits; /* and so may a function that is in no table */
	/* What lookups give out for each row, from HOOK_FIRST_NAME on. */
	void *const *wrappers;
	/* The device that the calling thread's next allocation is on, -1 if there is none. Called
	 * for calls that are limited on LIMITS_CURRENT. NULL: there are no such calls. */
	int (*current_device)(void);
	/* Bytes of memory of DEVICE, as the API numbers it; 0 if that is not known. */
	uint64_t (*device_total)(int device);
	/* Returns to the driver what the API's pool has cached, and the bytes. NULL: no pool. */
	uint64_t (*give_back)(void);
	/* A library was closed. NULL: nothing to do. */
	void (*library_gone)(void);
	/* A function without a row, NAME, was given out. NULL: nothing to do. */
	void (*saw_unknown)(const char *name);
};

#define API_BEGIN(api)                                                                       \
	extern const struct api_ops api_ops_##api __attribute__((visibility("hidden")));
#include "interpose/dispatch/hooks.def"

extern const struct api_ops *const apis[API_COUNT] __attribute__((visibility("hidden")));

/* The API whose functions have names such as NAME; API_COUNT if none has. Takes no lock: lookups
 * ask. */
enum api api_of(const char *name);

/* Each asks every API that has such a function. */
uint64_t apis_give_back(void);
void apis_library_gone(void);
void apis_saw_unknown(const char *name);

#endif
