/* SPDX-License-Identifier: MIT
 *
 * Creates the ledger of a new recorder.
 */
#ifndef GPULEAK_CREATE_LEDGER_H
#define GPULEAK_CREATE_LEDGER_H

#include <limits.h>
#include <stddef.h>

#include "interpose/recorder/recorder.h"

/* Where this process runs, and what. */
struct identity {
	char host[256];
	char exe[PATH_MAX];
	char cwd[PATH_MAX];
	char command[LEDGER_STRING_MAX];
	size_t command_length;
};

void identity_read(struct identity *ret);

/* PATTERN with its % expanded for this process; a relative one counts from CWD, where the
 * process was at its first GPU call. EXE and HOST are its own. As pattern_expand(). */
int expand_for_process(const char *pattern, const char *host, const char *exe, const char *cwd,
		       char *ret, size_t size);

/* Creates the ledger that GPULEAK_LEDGER names, or one in the user's directory, with HEADER. If
 * there can be no file, the ledger is in memory and recorder->report has the reason. 0 or
 * -errno. */
int create_ledger(struct recorder *recorder, const struct identity *identity,
		  const struct ledger_header *header);

#endif
