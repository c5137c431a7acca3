/* SPDX-License-Identifier: MIT
 *
 * Where libgpuleak.so is.
 */
#ifndef GPULEAK_TOOLS_LIBRARY_H
#define GPULEAK_TOOLS_LIBRARY_H

#include <stddef.h>

/* Its absolute path, fit for LD_PRELOAD, into RET. 0, or -errno with one line in ERROR. */
int library_find(char *ret, size_t size, char *error, size_t error_size);

#endif
