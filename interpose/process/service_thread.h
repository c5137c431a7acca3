/* SPDX-License-Identifier: MIT
 *
 * A thread of gpuleak's own, only if an option needs what no call of the application would do:
 * reports and steps by signal, timed steps, and trims of the pool while no GPU call comes.
 */
#ifndef GPULEAK_HELPER_H
#define GPULEAK_HELPER_H

#include "interpose/recorder/recorder.h"

/* Starts the thread if an option needs it. It takes no signals, is detached, and ends with the
 * process, also if all of the application's threads end. A forked child has no such thread until
 * it makes a GPU call. */
void helper_start(struct recorder *recorder);

#endif
