/* SPDX-License-Identifier: MIT
 *
 * From a finished recording to a report on the user's screen.
 */
#ifndef GPULEAK_VERDICT_H
#define GPULEAK_VERDICT_H

#include <stdbool.h>

#include "interpose/recorder/recorder.h"

/* Reports as the options say, and removes the ledger unless it is to be kept. Returns
 * true if the gate failed. Takes no lock that another thread could hold for long; may be
 * called from a signal handler (by way of _exit). */
bool verdict_report(struct recorder *recorder);

/* Reports, unless no report is wanted, that this process's GPU calls were not recorded, and
 * why (recorder_failure()). Returns true: the gate failed. */
bool verdict_unrecorded(void);

/* Called by the constructor: the path that the library was loaded by may be relative to the
 * working directory of that moment. Safe to be called again. */
void verdict_start(void);

/* Where the gpuleak command is that belongs to this library: an absolute path. */
bool verdict_find_command(char *ret, size_t size);

/* Reports what lives now to GPULEAK_REPORT_NOW's place, or GPULEAK_REPORT's, and waits until
 * that is done; a path gets the number of the report behind it. 0, or -errno: -ENOTSUP if the
 * place is "none". Not for signal handlers. */
int verdict_report_now(struct recorder *recorder);

#endif
