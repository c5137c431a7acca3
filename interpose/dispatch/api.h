/* SPDX-License-Identifier: MIT
 *
 * What gpuleak asks an API outside that API's own folder: one struct api_ops for each line of
 * apis.def. The folder defines it as api_ops_NAME; the linker finds it.
 */
#ifndef GPULEAK_API_H
#define GPULEAK_API_H

#include "interpose/dispatch/hooks.h"

struct api_ops {
	const char *title; /* for people, and in the ledger */
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

/* Each asks every API that has such a function. */
uint64_t apis_give_back(void);
void apis_library_gone(void);
void apis_saw_unknown(const char *name);

#endif
