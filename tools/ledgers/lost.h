/* SPDX-License-Identifier: MIT
 *
 * Finds processes of `gpuleak run` that made GPU calls and have no ledger. The command uses the
 * roster for this (ledger/roster.h). Does not trust its contents, and does not print.
 */
#ifndef GPULEAK_TOOLS_LOST_H
#define GPULEAK_TOOLS_LOST_H

#include "tools/ledgers/ledgers.h"
#include "ledger/roster.h"

/* Creates a roster. Writes the value of GPULEAK_ROSTER, by which processes find it, to RET_TEXT.
 * The kernel removes the roster when the last process that attached it ends, even if that is
 * killed. Returns 0 or -errno. */
int lost_create_roster(struct roster **ret, char ret_text[ROSTER_TEXT_MAX]);

/* Calls FOUND with a sentence for each process of ROSTER that has no ledger in LIST. LIST must have
 * all ledgers of DIRECTORY. Returns 0 or -ENOMEM. */
int lost_find(const struct roster *roster, const struct ledger_list *list, const char *directory,
	      void (*found)(void *data, const char *sentence), void *data);

#endif
