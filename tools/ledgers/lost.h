/* SPDX-License-Identifier: MIT
 *
 * Finds processes of `gpuleak run` that made GPU calls and have no ledger. The command uses the
 * roster for this (ledger/roster.h). Does not trust its contents, and does not print.
 */
#pragma once

#include "tools/ledgers/ledgers.h"
#include "ledger/roster.h"

/* Creates a roster. Writes the value of GPULEAK_ROSTER, by which processes find it, to RET_TEXT.
 * The kernel removes the roster when the last process that attached it ends, even if that is
 * killed. Returns 0 or -errno. */
int lost_create_roster(struct roster **ret, char ret_text[ROSTER_TEXT_MAX]);

/* Adds the processes and the numbers of FROM, the roster of a run inside the run of TO. FROM counts
 * its command, which TO has counted, too. */
void lost_copy(const struct roster *from, struct roster *to);

/* Counts this command as a program of the run that started it, if any, though gpuleak was not
 * loaded into it: for example if a program asks for a report on itself. */
void lost_count_command(void);

/* Returns how many programs the processes of the run have started without gpuleak being loaded into
 * them. May be negative if a process has written over the roster. */
long lost_not_loaded(const struct roster *roster);

/* Calls FOUND with a sentence for each process of ROSTER that has no ledger in LIST. LIST must have
 * all ledgers of DIRECTORY. */
void lost_find(const struct roster *roster, const struct ledger_list *list, const char *directory,
	       void (*found)(void *data, const char *sentence), void *data);
