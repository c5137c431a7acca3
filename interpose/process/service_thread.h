/* SPDX-License-Identifier: MIT
 *
 * The service thread of gpuleak. It runs only if an option needs actions at times when the
 * application makes no GPU call: reports and steps by signal, timed steps, trims of the pool, and
 * the end of an attachment.
 */
#pragma once

#include "interpose/recorder/recorder.h"

/* Catches the signals that options name, if the application left them at their default, and prints
 * a line for each that it cannot catch. Call at the first GPU call. Starts the thread if an option
 * needs it. The thread takes no signals, is detached, and ends with the process, also if all of the
 * application's threads end. A forked child has no such thread until it makes a GPU call. */
void service_thread_start(struct recorder *recorder);
/* If set, the thread starts in any case, and calls this four times a second or more often. */
extern _Atomic(void (*)(void)) service_thread_tick;
/* Wakes the thread, which handles requests. If the verdict is taken (enum ending), it ends. */
void service_thread_wake(void);
