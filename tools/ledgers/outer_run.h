/* SPDX-License-Identifier: MIT
 *
 * A `gpuleak run` inside another one: each reports on the processes of the inner one. The inner one
 * uses the options of its user, not those that the outer one has set for its processes, and links
 * its ledgers into the outer one's directory.
 */
#pragma once

#include <limits.h>

#include "ledger/roster.h"

struct outer_run {
	char directory[PATH_MAX]; /* of its ledgers; "": this run is in no other one */
	struct roster *roster;    /* NULL: it cannot be reached */
	struct roster_slot *slot; /* of this command */
};

/* Finds the outer run, and removes from the environment what it has set for its processes. Enters
 * this command into its list of processes, so that its gate fails if this command is killed. */
void outer_run_find(struct outer_run *outer);

/* Links the ledger at PATH, or copies it if that is not possible. Does nothing without an outer
 * run. */
void outer_run_add(const struct outer_run *outer, const char *path);

/* Copies what OURS (NULL: there is none) has on processes, after all ledgers were added. */
void outer_run_finish(struct outer_run *outer, const struct roster *ours);
