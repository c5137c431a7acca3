/* SPDX-License-Identifier: MIT
 *
 * Creates the ledger of a new recorder.
 */
#ifndef GPULEAK_CREATE_LEDGER_H
#define GPULEAK_CREATE_LEDGER_H

#include <limits.h>
#include <stddef.h>

#include "interpose/recorder/recorder.h"

/* The program that this process runs, and where. */
struct identity {
	char host[256];
	char exe[PATH_MAX];
	char cwd[PATH_MAX];
	char command[LEDGER_STRING_MAX];
	size_t command_length;
};

void identity_read(struct identity *ret);

/* Expands %p and the other % sequences of PATTERN for this process, as pattern_expand() does. A
 * relative PATTERN is relative to CWD, the directory of the process at its first GPU call. EXE and
 * HOST are those of the process. */
int expand_for_process(const char *pattern, const char *host, const char *exe, const char *cwd,
		       char *ret, size_t size);

/* Creates a ledger with HEADER at the path in GPULEAK_LEDGER, or in the user's directory. If no
 * file can be created, the ledger is in memory and recorder->report has the reason. Returns 0 or
 * -errno. */
int create_ledger(struct recorder *recorder, const struct identity *identity,
		  const struct ledger_header *header);

#endif
