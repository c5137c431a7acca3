/* SPDX-License-Identifier: MIT
 *
 * What keeps the live blocks of a call site, as the program's own interpreter found it. The library
 * only stores the text in the ledger.
 */
#pragma once

#include <stdint.h>

#include "ledger/format.h"
#include "ledger/lock.h"

struct recorder;

struct recorded_keepers { /* all zero: nothing was stored yet */
	struct lock lock;
	uint32_t count;
	struct ledger_keepers *records; /* an array in one chunk of the ledger */
};

/* Stores TEXT for the call site with the ref SITE, in place of an earlier text. Returns 0; -ENOENT
 * if the ledger has no such call site; -ENODATA if it has no room or is complete. Not safe in a
 * signal handler. */
int recorded_keepers_store(struct recorder *recorder, uint64_t site, const char *text);
