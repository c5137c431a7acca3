/* SPDX-License-Identifier: MIT
 *
 * Stops the other threads of the process while the report is made at its end. A driver that has
 * destroyed its objects may have threads that still use them. Without gpuleak the process ends
 * before they run.
 */
#ifndef GPULEAK_PAUSE_THREADS_H
#define GPULEAK_PAUSE_THREADS_H

#include <stdbool.h>

/* Stops all other threads, until threads_resume(). A thread may hold any lock meanwhile, also one
 * of gpuleak's, so the caller must take none. Returns false, and stops no thread, if the system
 * does not allow it. Needs 8 KiB of stack. Only for the thread that ends the process. */
bool threads_pause(void);
void threads_resume(void);

#endif
