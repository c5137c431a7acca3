/* SPDX-License-Identifier: MIT
 *
 * Chooses the file for a report of this process.
 */
#ifndef GPULEAK_DESTINATION_H
#define GPULEAK_DESTINATION_H

#include <limits.h>

#include "interpose/recorder/recorder.h"

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

#endif
