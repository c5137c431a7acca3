/* SPDX-License-Identifier: MIT
 *
 * What gpuleak asks an API outside that API's own folder: one struct api_ops for each line of
 * apis.def. The folder defines it as api_ops_NAME; the linker finds it.
 */
#ifndef GPULEAK_API_H
#define GPULEAK_API_H

#include "interpose/dispatch/hooks.h"

struct api_ops {
	/* What lookups give out for each row, from HOOK_FIRST_NAME on. */
	void *const *wrappers;
};

#define API_BEGIN(api)                                                                       \
	extern const struct api_ops api_ops_##api __attribute__((visibility("hidden")));
#include "interpose/dispatch/hooks.def"

extern const struct api_ops *const apis[API_COUNT] __attribute__((visibility("hidden")));

#endif
