/* SPDX-License-Identifier: MIT
 *
 * The folder in which a process to which gpuleak attaches writes its ledger, and the path of the
 * library there. The process may have other files than this command (a container) or another user.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "tools/attach/target.h"

struct attach_place {
	char inside[PATH_MAX];  /* the folder, as the process reaches it */
	char here[PATH_MAX];    /* as this command reaches it; also after the process has ended */
	char library[PATH_MAX]; /* in the process */
	bool is_ours;  /* else the folder is in the process's /tmp */
	bool is_copied; /* the library was copied to the folder */
	int pid;
	int fd; /* of the folder; -1 if there is none */
};

/* Creates the folder, locks it, and copies LIBRARY to it if the process does not have it. Returns
 * 0, or -errno with the reason in ERROR. */
int attach_place_make(struct attach_place *ret, const struct target *target, const char *library,
		      char *error, size_t size);

/* Returns true if TARGET can use PLACE and LIBRARY too. */
bool attach_place_fits(const struct attach_place *place, const struct target *target,
		       const char *library);

/* Removes the lock: the recording ends in less than a second. */
void attach_place_unlock(const struct attach_place *place);

/* Removes the copy of the library. The process keeps what it has loaded. */
void attach_place_forget_library(struct attach_place *place);

/* Removes the folder and the ledgers in it. */
void attach_place_remove(struct attach_place *place);
