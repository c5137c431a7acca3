/* SPDX-License-Identifier: MIT
 *
 * Which file a report of this process goes to.
 */
#ifndef GPULEAK_DESTINATION_H
#define GPULEAK_DESTINATION_H

#include <limits.h>

#include "interpose/recorder/recorder.h"

/* What the recorder keeps for its reports: recorder->report. */
struct report_state {
	struct lock asking;         /* one report on demand at a time */
	unsigned int asked;         /* reports on demand so far */
	char destination[PATH_MAX]; /* of the report at the end; "" until it is chosen */
	int create_errno;           /* why there is no ledger file; 0 = there is */
	char place[PATH_MAX];       /* where it was to be */
};

/* Stores the place of the report at the process's end in recorder->report->destination: "stderr",
 * or the path that GPULEAK_REPORT names. The path gets .1, .2 ... at its end where a report that
 * must stay has the name already. A second call finds the same place. 0 or -errno. */
int destination_at_end(struct recorder *recorder);

/* The same for a report on demand: a path always has the report's number at its end. RET has
 * room for PATH_MAX bytes. */
int destination_now(struct recorder *recorder, const char *pattern, char *ret);

#endif
