/* SPDX-License-Identifier: MIT
 *
 * The ledger records of frees that the driver refused although their block was live: one for each
 * call site of blocks, place of the free and result. Must not decide whether a free was refused.
 */
#pragma once

#include "interpose/recorder/recorder.h"

/* Part of the recorder. */
struct refused_frees {
	struct lock lock; /* guards the other fields */
	unsigned int count;
	struct ledger_refused_free *record[LEDGER_REFUSED_FREES_MAX];
};

/* Records the refused free that NEW describes, without its count. BLOCK is the name of its block,
 * or 0 if the block counts as freed. */
void refused_free_record(struct recorder *recorder, const struct ledger_refused_free *new,
			 uint64_t block);
