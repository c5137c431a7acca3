/* SPDX-License-Identifier: MIT
 *
 * Steps: moments that somebody marks, at which the ledger notes what every site has. Whether
 * a site keeps growing from step to step is the report's to say.
 */
#ifndef GPULEAK_STEPS_H
#define GPULEAK_STEPS_H

#include <stdint.h>

#include "ledger/format.h"
#include "ledger/lock.h"

struct recorder;
struct step_row;
struct step_site;

struct steps { /* all zero: none marked yet */
	struct lock lock;
	uint32_t number; /* of the last one */
	uint32_t lost;   /* sites that found no room */
	uint32_t site_count;
	struct step_row *rows;   /* which site a row of the ledger counts for */
	struct step_site *sites; /* by what they are */
	struct step_site *first; /* all of them */
	struct ledger_step *records; /* side by side in their chunk */
};

/* Marks a step, LABEL may be NULL. Its number, from 1; 0 if it could not be noted. Costs a walk
 * over the slots of blocks; other threads go on. */
uint32_t steps_mark(struct recorder *recorder, const char *label);

#endif
