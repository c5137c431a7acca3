/* SPDX-License-Identifier: MIT
 *
 * The program's queries about its own blocks, for the functions of gpuleak.h: marks, totals since
 * a mark, the block at an address, ignored blocks. Writes only the "ignored" flag into the ledger.
 * Never creates a recorder.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "ledger/format.h"
#include "interpose/recorder/recorder.h"

/* Number of marks set, plus 1, and LEDGER_BLOCK_CAPTURED while a stream is captured. It belongs to
 * the process, and a forked child continues with it. All blocks of the child were made after a mark
 * that was set before the fork. */
extern _Atomic uint32_t query_marks __attribute__((visibility("hidden")));

/* Returns the initial value of `marked` for a block that the calling thread makes now. */
static inline uint32_t query_initial_marked(void)
{
	return atomic_load_explicit(&query_marks, memory_order_relaxed) | thread_self.ignored;
}

/* Sets a new mark and returns its number. */
uint32_t query_set_mark(void);
/* A stream of the process is being captured from now on, or none. */
void query_capturing(bool on);
/* Begins or ends the ignoring of new blocks of the calling thread. Calls nest. */
void query_ignoring(bool on);

struct query_filter {
	uint64_t mark;    /* only blocks made since this mark */
	uint32_t thread;  /* only blocks made by this thread; 0: any */
	const char *kind; /* only blocks of this kind; NULL: any */
};
struct query_total {
	uint64_t blocks, bytes;
	uint64_t ignored_blocks, ignored_bytes; /* not included in blocks and bytes */
};
/* Stores in RET the totals of the live blocks, which are in chunks of TYPE: LEDGER_CHUNK_BLOCKS, or
 * LEDGER_CHUNK_SUBALLOCATIONS, which have no kind of their own. Takes no lock. A block that is live
 * during the whole call is counted once. */
void query_total(struct recorder *recorder, enum ledger_chunk_type type,
		 const struct query_filter *filter, struct query_total *ret);
/* Returns how often call sites doubled their number of live blocks, from 8 blocks on. Only call
 * sites whose live blocks are counted; high points before the current window do not count. */
uint64_t query_doublings(struct recorder *recorder);

/* Finds a live block that begins at ADDRESS or has it as its handle; otherwise one that contains
 * ADDRESS. Returns false if it finds no block. IGNORE: ignores the block from now on. *RET gets a
 * copy of the block, *RET_SPAN the number of addresses that it covers. */
bool query_block(struct recorder *recorder, uint64_t address, bool ignore, struct ledger_block *ret,
		 uint64_t *ret_span);

/* Locking: the caller is inside RECORDER. The live block of CUDA's linear memory that begins at
 * ADDRESS gets the name NAME, a ref of a string. Returns false if no such block begins there.
 * Stores in *RET_NAMED if the block had a name already. */
bool query_set_name(struct recorder *recorder, uint64_t address, uint32_t name, bool *ret_named);
