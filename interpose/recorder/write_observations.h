/* SPDX-License-Identifier: MIT
 *
 * Writes what lookups observed (observations.h) into the ledger.
 */
#ifndef GPULEAK_WRITE_OBSERVATIONS_H
#define GPULEAK_WRITE_OBSERVATIONS_H

#include "interpose/dispatch/observations.h"
#include "ledger/lock.h"

struct recorder;

/* What the present ledger has of them. */
struct facts_written {
	struct lock lock;
	uint32_t noted;            /* state of the table when it was last written */
	uint32_t kind[FACT_KINDS]; /* refs of the words */
	uint32_t ref[FACTS_MAX];   /* of the records */
	uint32_t troubles[LEDGER_TROUBLE_COUNT]; /* how many of each were added */
};

/* Writes what is new. Not from a lookup. */
void facts_write(struct recorder *recorder);

#endif
