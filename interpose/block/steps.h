/* SPDX-License-Identifier: MIT
 *
 * Steps: moments that the program marks. At each step the ledger records the live blocks and bytes
 * of every call site. The report checks whether a call site grows from step to step.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "ledger/format.h"
#include "ledger/lock.h"

struct recorder;
struct step_row;
struct step_site;

struct named_steps { /* all zero: no step had a name yet */
	uint32_t count; /* number of records */
	struct ledger_named_step *records; /* an array in the ledger */
	struct ledger_named_step *open; /* NULL: no named step is open */
};

struct steps { /* all zero: no step was marked yet */
	struct lock lock;
	uint32_t number; /* of the latest step */
	uint32_t lost;   /* number of call sites that could not be stored */
	uint32_t site_count;
	struct step_row *rows;   /* finds the call site of a ledger row */
	struct step_site *sites; /* hash table by stack, call, kind and device */
	struct step_site *first; /* linked list of all call sites */
	struct ledger_step *records; /* an array in the ledger */
	struct named_steps named;
};

/* Marks a step; LABEL may be NULL. Returns its number, from 1, or 0 if it could not be recorded.
 * Reads all call sites. Other threads continue meanwhile. Not safe in a signal handler. */
uint32_t steps_mark(struct recorder *recorder, const char *label);
/* Ends the named step that is open. Begins one with NAME, unless NAME is NULL or empty. Returns
 * false if the new one cannot be recorded. Otherwise like steps_mark(). */
bool steps_name(struct recorder *recorder, const char *name);

/* ---- timeline.c: live bytes over time by kind of memory and device. Allocations and frees count
 * nothing for it. Instead, all call sites in the ledger are added up from time to time. ---- */

/* Records a moment if one is due; the calling thread does the work. Never waits. */
void timeline_look(struct recorder *recorder, uint64_t now_ns);
