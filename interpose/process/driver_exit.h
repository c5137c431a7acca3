/* SPDX-License-Identifier: MIT
 *
 * The moment of the verdict: before the first destructor or exit handler of a driver's library
 * runs, or gpuleak's own destructor.
 */
#ifndef GPULEAK_DRIVER_EXIT_H
#define GPULEAK_DRIVER_EXIT_H

#include "interpose/recorder/recorder.h"

/* Does what takes time: waits for deferred frees, for 20 ms at most, and looks for calls that
 * bypass gpuleak. Needs 64 KiB of stack. */
void reporter_settle(void *recorder);

/* Takes the verdict on this process, unless that was done. First calls reporter_settle().
 * What the driver destroys afterwards counts as not freed. Frees by the application
 * count still. */
void verdict_take(enum ending ending);

/* Returns true if a driver may have destroyed objects that its threads still use. OpenCL
 * implementations may end in destructors, which gpuleak does not see. */
bool driver_may_have_ended(const struct recorder *recorder);

#endif
