/* SPDX-License-Identifier: MIT
 *
 * Starts recording: options at load time, the recorder at the first GPU call. Also declares what
 * start.c calls to create the ledger of a new recorder and to write its first records.
 */
#pragma once

#include <limits.h>

#include "interpose/recorder/recorder.h"

/* Reads the options and the environment. Called by the constructor, or by a GPU call in another
 * library's constructor that runs earlier. Further calls do nothing. */
void process_start(void);

/* While recording is off, get_or_make() makes no recorder, and calls this instead; may be NULL. */
extern void (*process_stays_off)(void);

/* If not 0: only this process records, and no forked child of it. */
extern int process_only;

/* Unmaps RECORDER, which stopped recording, except for its first page: threads may compare its
 * address. No thread may use it any more. */
void process_release(struct recorder *recorder);

/* Called after a recorder was made, on the thread that made it; may be NULL. */
extern void (*process_has_recorder)(struct recorder *recorder);

/* At the end of a process without a recorder: if its GPU calls bypassed gpuleak, records that
 * for `gpuleak run`. Calls the loader. */
void process_note_bypass(void);

/* Adds CHANGE to the number of programs that the programs of `gpuleak run` have started. Safe in a
 * vfork child: the number is in the roster. */
void process_count_started(int change);

/* Returns true if `gpuleak run` started this process: then that command, or a line that was printed
 * when recording began, reports what could not be recorded (ledger/roster.h). */
bool process_is_of_run(void);

/* ---- create_ledger.c ---- */

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

/* ---- lsan_suppressions.c ---- */

/* Locking: the caller holds no lock, because this calls the loader and the program. Returns the
 * text of the program's __lsan_default_suppressions(), or NULL if it has no such function. */
const char *lsan_ask(void);
/* Writes TEXT into a new ledger. TEXT may be NULL. */
void lsan_write(struct recorder *recorder, const char *text);

/* ---- rank.c: the rank of this process in a parallel job, from the launcher's variables ---- */

/* Reads the environment as it is now. Call before main, since programs change it. */
void rank_read(void);
/* Stores the rank in a new ledger. Reads the environment again first, since a worker may get its
 * rank from its parent's code. Otherwise uses what the environment had at the start. */
void rank_write(struct recorder *recorder);
