/* SPDX-License-Identifier: MIT
 *
 * From a complete recording to a report for the user.
 */
#ifndef GPULEAK_VERDICT_H
#define GPULEAK_VERDICT_H

#include <stdbool.h>

#include "interpose/recorder/recorder.h"

/* Reports as the options say, and removes the ledger unless it is to be kept. Returns
 * true if the gate failed. Takes no lock that another thread could hold for long; may be
 * called from a signal handler (by way of _exit). */
bool verdict_report(struct recorder *recorder);

/* If a report is wanted, reports that this process's GPU calls were not recorded, and why
 * (recorder_failure()). Returns true: the gate failed. */
bool verdict_unrecorded(void);

/* Returns the absolute path of the gpuleak command that belongs to this library. */
bool verdict_find_command(char *ret, size_t size);

/* Reports the live blocks to GPULEAK_REPORT_NOW's place, or to GPULEAK_REPORT's, and waits for
 * the report. A path gets the report's number at its end. Returns 0 or -errno; -ENOTSUP if the
 * place is "none". Not for signal handlers. */
int verdict_report_now(struct recorder *recorder);

/* Writes a JSON report on the live blocks with their addresses to the descriptor FD, and waits for
 * it. Returns 0 or -EIO. Not for signal handlers. */
int verdict_report_live(struct recorder *recorder, int fd);

#endif
