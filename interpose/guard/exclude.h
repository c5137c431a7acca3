/* SPDX-License-Identifier: MIT
 *
 * Libraries whose blocks are not guarded (GPULEAK_GUARD_EXCLUDE).
 */
#ifndef GPULEAK_GUARD_EXCLUDE_H
#define GPULEAK_GUARD_EXCLUDE_H

#include <stdbool.h>

#include "interpose/block/call.h"

/* Locking: the caller holds no lock and is outside the recorder. Returns true if a frame of the
 * calling thread's stack lies in an excluded library. */
bool guard_is_excluded(const struct call *call);

#endif
