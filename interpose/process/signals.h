/* SPDX-License-Identifier: MIT
 *
 * Options that name a signal: what comes as a signal is a wish, and a wish is granted by the
 * helper thread (service_thread.c) or by the next GPU memory call, since a handler may do neither.
 */
#ifndef GPULEAK_SIGNALS_H
#define GPULEAK_SIGNALS_H

#include <stdatomic.h>
#include <stdint.h>

enum wish {
	WISH_TRIM = 1,   /* GPULEAK_POOL_SIGNAL */
	WISH_REPORT = 2, /* GPULEAK_REPORT_SIGNAL */
	WISH_STEP = 4,   /* GPULEAK_STEP_SIGNAL */
};

/* What was wished for since somebody took it; who adds to it wakes who waits for the word. */
extern _Atomic uint32_t signals_wishes;
/* How many signals came for each; two that come before the first is granted are two steps. */
extern _Atomic uint32_t signals_steps;

/* Catches the signals that options name, if the application leaves them to their default. At
 * the first GPU call; says so, once each, if it can't. */
void signals_start(void);

/* Of enum wish: for which a signal is caught. */
uint32_t signals_caught(void);

#endif
