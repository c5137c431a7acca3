/* SPDX-License-Identifier: MIT
 *
 * A GPU API of 102 calls that gpuleak tracks, for the test that a third API fits. libtoy.so.1 is
 * its driver, which exports functions without a row, too.
 */
#ifndef TOY_H
#define TOY_H

#include <stddef.h>

enum { TOY_SUCCESS, TOY_INVALID, TOY_OUT_OF_MEMORY };
enum { TOY_CONTEXT = 7, TOY_DEVICE = 0 }; /* the only ones */

__attribute__((visibility("default"))) int toyAlloc(void **address, size_t bytes);
__attribute__((visibility("default"))) int toyAllocManaged(void **address, size_t bytes);
__attribute__((visibility("default"))) int toyFree(void *address);
/* Ends all blocks of the context. */
__attribute__((visibility("default"))) int toyContextDestroy(int context);
__attribute__((visibility("default"))) size_t toyDeviceTotal(int device);

__attribute__((visibility("default"))) int toyContextCreate(int *context);
/* Images, streams and events are handles. The next one is what toyNextHandle() got. */
__attribute__((visibility("default"))) void toyNextHandle(void *handle);
__attribute__((visibility("default"))) int toyImageCreate(void **image, size_t bytes);
__attribute__((visibility("default"))) int toyImageDestroy(void *image);
__attribute__((visibility("default"))) int toyStreamCreate(void **stream);
__attribute__((visibility("default"))) int toyStreamDestroy(void *stream);
__attribute__((visibility("default"))) int toyEventCreate(void **event);
__attribute__((visibility("default"))) int toyEventDestroy(void *event);
/* Returns the number of blocks that are allocated. */
__attribute__((visibility("default"))) int toyLiveBlocks(void);
#define HOOK(symbol, returns, parameters, ...)                                              \
	__attribute__((visibility("default"))) returns symbol parameters;
#include "interpose/toy/toy_submits.def"
#undef HOOK

/* Not tracked: toyImport allocates, toyVersion has nothing to do with memory, and toyNewer is newer
 * than gpuleak's tables. */
__attribute__((visibility("default"))) int toyImport(void **address, const char *name);
__attribute__((visibility("default"))) int toyVersion(void);
__attribute__((visibility("default"))) int toyNewer(void);

#endif
