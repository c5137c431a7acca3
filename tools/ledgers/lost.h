/* SPDX-License-Identifier: MIT
 *
 * Processes of `gpuleak run` that made GPU calls and left no ledger: the command's side of the
 * roster (ledger/roster.h). Trusts nothing in it, and prints nothing.
 */
#ifndef GPULEAK_TOOLS_LOST_H
#define GPULEAK_TOOLS_LOST_H

#include "tools/ledgers/ledgers.h"
#include "ledger/roster.h"

/* Makes a roster. Its processes find it by RET_TEXT, the value of GPULEAK_ROSTER. The kernel
 * removes it with the last process that has it, however that ends. 0 or -errno. */
int lost_create_roster(struct roster **ret, char ret_text[ROSTER_TEXT_MAX]);

/* Calls FOUND with a sentence for each process of ROSTER that has no ledger in LIST, which is
 * what lies in DIRECTORY. 0 or -ENOMEM. */
int lost_find(const struct roster *roster, const struct ledger_list *list, const char *directory,
	      void (*found)(void *data, const char *sentence), void *data);

#endif
