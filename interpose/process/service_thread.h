/* SPDX-License-Identifier: MIT
 *
 * The service thread of gpuleak. It runs only if an option needs actions at times when the
 * application makes no GPU call: reports and steps by signal, timed steps, and trims of the pool.
 */
#ifndef GPULEAK_SERVICE_THREAD_H
#define GPULEAK_SERVICE_THREAD_H

#include "interpose/recorder/recorder.h"

/* Starts the thread if an option needs it. It takes no signals, is detached, and ends with the
 * process, also if all of the application's threads end. A forked child has no such thread until
 * it makes a GPU call. */
void service_thread_start(struct recorder *recorder);
/* The verdict is taken (enum ending): wakes the thread, which then ends. */
void service_thread_stop(void);

#endif
