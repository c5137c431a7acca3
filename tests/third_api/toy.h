/* SPDX-License-Identifier: MIT
 *
 * A GPU API of four calls that gpuleak tracks, for the test that a third API fits. libtoy.so.1 is
 * its driver, which exports functions without a row, too.
 */
#ifndef TOY_H
#define TOY_H

#include <stddef.h>

enum { TOY_SUCCESS, TOY_INVALID, TOY_OUT_OF_MEMORY };
enum { TOY_CONTEXT = 7, TOY_DEVICE = 3 }; /* the only ones */

__attribute__((visibility("default"))) int toyAlloc(void **address, size_t bytes);
__attribute__((visibility("default"))) int toyAllocManaged(void **address, size_t bytes);
__attribute__((visibility("default"))) int toyFree(void *address);
/* Ends all blocks of the context. */
__attribute__((visibility("default"))) int toyContextDestroy(int context);
__attribute__((visibility("default"))) size_t toyDeviceTotal(int device);

/* Not tracked: toyImport allocates, toyVersion has nothing to do with memory, and toyNewer is newer
 * than gpuleak's tables. */
__attribute__((visibility("default"))) int toyImport(void **address, const char *name);
__attribute__((visibility("default"))) int toyVersion(void);
__attribute__((visibility("default"))) int toyNewer(void);

#endif
