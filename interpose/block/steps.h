/* SPDX-License-Identifier: MIT
 *
 * Steps: moments that the program marks. At each step the ledger records the live blocks and bytes
 * of every call site. The report checks whether a call site grows from step to step.
 */
#ifndef GPULEAK_STEPS_H
#define GPULEAK_STEPS_H

#include <stdint.h>

#include "ledger/format.h"
#include "ledger/lock.h"

struct recorder;
struct step_row;
struct step_site;

struct steps { /* all zero: no step was marked yet */
	struct lock lock;
	uint32_t number; /* of the latest step */
	uint32_t lost;   /* number of call sites that could not be stored */
	uint32_t site_count;
	struct step_row *rows;   /* finds the call site of a ledger row */
	struct step_site *sites; /* hash table by stack, call, kind and device */
	struct step_site *first; /* linked list of all call sites */
	struct ledger_step *records; /* an array in one chunk of the ledger */
};

/* Marks a step; LABEL may be NULL. Returns its number, from 1, or 0 if it could not be recorded.
 * Reads all slots of blocks. Other threads continue meanwhile. Not safe in a signal handler. */
uint32_t steps_mark(struct recorder *recorder, const char *label);

#endif
