/* SPDX-License-Identifier: MIT
 *
 * Makes reports for the user from this process's recording. Also declares what reporter.c needs for
 * that: the moment of the verdict, the file of a report, the fallback report, and the pause of the
 * other threads.
 */
#pragma once

#include <limits.h>

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

/* ---- driver_exit.c: the moment of the verdict, which is before the first destructor or exit
 * handler of a driver's library runs, or in gpuleak's own destructor ---- */

/* Does what takes time: waits for deferred frees, for 20 ms at most, and looks for calls that
 * bypass gpuleak. Needs 64 KiB of stack. */
void reporter_settle(void *recorder);

/* Takes the verdict on this process, unless that was done. First calls reporter_settle().
 * What the driver destroys afterwards counts as not freed. Frees by the application
 * count still. */
void verdict_take(enum ending ending);

/* ---- static_objects.c ---- */

/* OBJECT has a destructor that exit() will call. */
void static_object_made(void *object);
/* Records which call sites allocated what these objects have. */
void static_objects_search(struct recorder *recorder);

/* Returns true if a driver may have destroyed objects that its threads still use. OpenCL
 * implementations may end in destructors, which gpuleak does not see. */
bool driver_may_have_ended(const struct recorder *recorder);

/* ---- report_path.c: the file for a report of this process ---- */

/* State about reports: recorder->report. */
struct report_state {
	struct lock asking;         /* held while a report on demand is made: one at a time */
	unsigned int asked;         /* number of the latest report on demand */
	char destination[PATH_MAX]; /* of the report at exit; "" until it is chosen */
	int create_errno;           /* why there is no ledger file; 0: there is one */
	char place[PATH_MAX];       /* path of the ledger file, or the last one tried */
};

/* Stores the destination of the report at exit in recorder->report->destination: "stderr", or the
 * path that GPULEAK_REPORT names. If a report that must stay has that name, .1, .2 ... is appended.
 * A second call keeps the destination. Returns 0 or -errno. */
int destination_at_end(struct recorder *recorder);

/* The same for a report on demand, whose path always ends in the report's number. RET has room for
 * PATH_MAX bytes. */
int destination_now(struct recorder *recorder, const char *pattern, char *ret);

/* ---- fallback_report.c: if the gpuleak command cannot be run ---- */

/* Writes a report to FD, with WHY (how to get a better one) at its end. Its frames have modules,
 * offsets and dynamic symbols. It applies no suppressions. Returns true if there are leaks or
 * errors. *RET_WRITTEN becomes false if FD did not take the whole report. */
bool plain_report(struct recorder *recorder, int fd, const char *why, bool *ret_written);

/* ---- pause_threads.c ---- */

/* Stops all other threads, until threads_resume(): a driver that has destroyed its objects may have
 * threads that still use them, and without gpuleak the process ends before they run. A thread may
 * hold any lock meanwhile, also one of gpuleak's, so the caller must take none. Returns false, and
 * stops no thread, if the system does not allow it. Needs 8 KiB of stack. */
bool threads_pause(void);
void threads_resume(void);
