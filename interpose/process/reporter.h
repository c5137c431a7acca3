/* SPDX-License-Identifier: MIT
 *
 * Makes reports for the user from this process's recording.
 */
#ifndef GPULEAK_REPORTER_H
#define GPULEAK_REPORTER_H

#include <stdbool.h>

#include "interpose/recorder/recorder.h"

/* Makes the report at exit that the options request, and removes the ledger unless GPULEAK_LEDGER
 * is set. Returns true if the gate failed. Takes no lock that another thread could hold for long;
 * may be called from a signal handler (by way of _exit). */
bool reporter_at_exit(struct recorder *recorder);

/* If a report is wanted, reports that this process's GPU calls were not recorded, and why
 * (recorder_failure()). Returns true: the gate failed. */
bool reporter_unrecorded(void);

/* Stores the absolute path of the gpuleak command that belongs to this library. Returns false if
 * the command is not found, or if the path needs more than SIZE bytes. */
bool reporter_find_command(char *ret, size_t size);

/* Reports the live blocks to the place in GPULEAK_REPORT_NOW or, if that is not set, in
 * GPULEAK_REPORT, and waits for the report. A path gets the report's number at its end. Returns 0
 * or -errno; -ENOTSUP if the place is "none". Not for signal handlers. */
int reporter_now(struct recorder *recorder);

/* Writes a JSON report on the live blocks with their addresses to the descriptor FD, and waits for
 * it. Returns 0 or -EIO. Not for signal handlers. */
int reporter_live(struct recorder *recorder, int fd);

#endif
