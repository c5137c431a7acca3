/* SPDX-License-Identifier: MIT
 *
 * Options that name a signal. A signal is a request for a report, a step or a trim. The service
 * thread (service_thread.c) or the next GPU memory call does the work, because a signal handler
 * must not do it.
 */
#ifndef GPULEAK_SIGNALS_H
#define GPULEAK_SIGNALS_H

#include <stdatomic.h>
#include <stdint.h>

enum signal_request {
	REQUEST_TRIM = 1,   /* GPULEAK_POOL_SIGNAL */
	REQUEST_REPORT = 2, /* GPULEAK_REPORT_SIGNAL */
	REQUEST_STEP = 4,   /* GPULEAK_STEP_SIGNAL */
};

/* Requests that the service thread has not handled yet. The signal handler that adds one wakes the
 * service thread. */
extern _Atomic uint32_t signals_requests;
/* The number of signals that requested a step. If two arrive before the first is handled, both mark
 * a step. */
extern _Atomic uint32_t signals_steps;

/* Catches the signals that options name, if the application left them at their default. Call at
 * the first GPU call. Prints a line for each that it cannot catch. */
void signals_start(void);

/* Returns the requests (enum signal_request) whose signals gpuleak catches. */
uint32_t signals_caught(void);

#endif
