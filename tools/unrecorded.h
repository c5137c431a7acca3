/* SPDX-License-Identifier: MIT
 *
 * What `gpuleak run` says about programs of the run that have no complete ledger because gpuleak
 * was not loaded into them, or because they outlive the run.
 */
#pragma once

#include "tools/launch/descendants.h"
#include "tools/ledgers/ledgers.h"
#include "ledger/roster.h"

/* Calls FOUND with a sentence for each program that has loaded a driver and not gpuleak, and for
 * each program with a driver that still runs. LIST has the ledgers of the run, whose processes the
 * report names itself. */
void unrecorded_find(const struct descendants *descendants, const struct ledger_list *list,
		     void (*found)(void *data, const char *sentence), void *data);

/* Prints one line with the number of programs that could not be looked at, if there are any. */
void unrecorded_print_count(const struct descendants *descendants, const struct roster *roster);
