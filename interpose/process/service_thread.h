/* SPDX-License-Identifier: MIT
 *
 * A thread of our own, only where an option asks for what no call of the application would
 * do: reports and steps by signal, steps by time, giving back while no GPU call comes.
 */
#ifndef GPULEAK_HELPER_H
#define GPULEAK_HELPER_H

#include "interpose/recorder/recorder.h"

/* Starts it if an option wants it. It takes no signals, is detached, and ends with the
 * process: also if the application's own threads all end by themselves. A forked child has
 * none until it makes a GPU call of its own. */
void helper_start(struct recorder *recorder);

#endif
