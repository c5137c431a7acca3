/* SPDX-License-Identifier: MIT
 *
 * Writes the observations made by lookups (observations.h) into the ledger.
 */
#pragma once

#include "interpose/dispatch/observations.h"
#include "ledger/lock.h"

struct recorder;

/* The observations that the current ledger has. */
struct observations_written {
	struct lock lock;
	uint32_t recorded;                /* observations_recorded() at the last write */
	uint32_t kind[OBSERVATION_KINDS]; /* refs of the kinds' names */
	uint32_t ref[OBSERVATIONS_MAX];   /* refs of the records */
	uint32_t troubles[LEDGER_TROUBLE_COUNT]; /* how many troubles of each kind were added */
};

/* Writes what is new. Not safe during a dlsym() lookup. */
void observations_write(struct recorder *recorder);

/* What the stand-in driver of `gpuleak run --fake-gpu` reports of itself (no_gpu_report.c). Kept
 * for a ledger that is created later. Thread-safe, and without locks. */

/* Writes what is known into the ledger of RECORDER, which was just published. */
void no_gpu_write(struct recorder *recorder);
