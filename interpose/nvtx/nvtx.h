/* SPDX-License-Identifier: MIT
 *
 * gpuleak as the injection library of NVTX, for names of ranges. A program contains NVTX as inline
 * code. At its first call this code loads the library that NVTX_INJECTION64_PATH names, and calls
 * InitializeInjectionNvtx2() in it.
 */
#ifndef GPULEAK_NVTX_H
#define GPULEAK_NVTX_H

#include <stdbool.h>
#include <stdint.h>

#include "interpose/base/export.h"

/* For the constructor. Returns true if NVTX has loaded this library, which was not preloaded. Then
 * it must do nothing. Otherwise, if the process RECORDS, sets NVTX_INJECTION64_PATH to this library
 * unless it is set: replaces `environ`. */
bool nvtx_start(bool records);

/* A lookup found FOUND, the function InitializeInjectionNvtx2() of another tool. Returns gpuleak's
 * function that calls it, unless gpuleak was loaded only for NVTX. */
void *nvtx_found(void *found);

typedef const void *nvtx_get_export_table(uint32_t table);
EXPORT int InitializeInjectionNvtx2(nvtx_get_export_table *get_export_table);

#endif
