/* SPDX-License-Identifier: MIT
 *
 * Which file was mapped where, and when: the ledger's module table. A module that goes
 * away keeps its row; if stacks have frames in it, or another file takes its addresses,
 * a new epoch begins, and stacks of different epochs are never taken for one another.
 */
#ifndef GPULEAK_MODULES_H
#define GPULEAK_MODULES_H

#include <stdbool.h>
#include <stdint.h>

#include "ledger/format.h"
#include "ledger/lock.h"

struct recorder;
struct capture;

#define MODULES_MAX 4096 /* torch loads some 300; past this, frames stay without a module */

struct module {
	uint64_t start, end;
	uint32_t ref;  /* of its ledger row */
	bool loaded;   /* seen in the latest look */
	bool used;     /* some stack of the ledger has a frame in it */
};

struct modules {
	struct lock lock;
	uint32_t epoch;  /* written with the lock */
	int stale;       /* a dlclose happened since the latest look */
	uint64_t loads;  /* the loader's own count at the latest look */
	unsigned int count;
	bool taken_over; /* some address range has held two different modules */
	struct module module[MODULES_MAX];
};

/* Looks at all modules now. */
void modules_refresh(struct recorder *recorder);

/* Makes sure that every frame's module is in the table, if it is in any. */
void modules_cover(struct recorder *recorder, const struct capture *capture);

#endif
