/* SPDX-License-Identifier: MIT
 *
 * The pool of CUDA memory: what the wrappers may ask of it. Whole native blocks are kept and
 * handed out again; docs/guides/pool.md says by which rules. Everything here may be called by any
 * thread at any time; while the pool is off each answers at once that there is nothing.
 */
#ifndef GPULEAK_POOL_H
#define GPULEAK_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "interpose/block/blocks.h"
#include "interpose/cuda/cuda_types.h"

/* GPULEAK_POOL is strict or fast and nothing has turned it off; the first thing that a wrapper
 * looks at. */
extern _Atomic bool pool_on;

/* The pooled block that an address lies in. */
struct pool_place {
	uint64_t address; /* what the application was given */
	uint64_t bytes;   /* what it asked for */
	uint64_t context; /* whose memory it is */
	int device;
	bool live;  /* false: it was freed, and is kept: to the application there is nothing here */
	bool whole; /* a native block of its own; false: a part of a slab */
};

/* The block around ADDRESS, live or kept, or the slab's unused part that it lies in (then not
 * live and of 0 bytes); false if ADDRESS is not the pool's. Takes a lock at most for slabs. */
bool pool_lookup(uint64_t address, struct pool_place *ret);

/* Others may use the live block at ADDRESS from now on, by means that no wait of ours covers
 * (IPC, dma-buf), or it has attributes that must not reach its next owner: when it is freed it
 * goes back to the driver. */
void pool_never_reuse(uint64_t address, enum ledger_pool_reason why);
/* Memory is about to be shared with other processes: no slabs from now on. */
void pool_no_slabs(void);

/* Bytes of DEVICE that the pool has of the driver and the application does not use: to the
 * application they are free. */
uint64_t pool_unused_bytes(int device);

/* An allocating call answered out of memory: gives back what it can. Whether that was
 * anything, and the call should be tried once more. DEVICE -1: of any. */
bool pool_relieve(int device);
/* An application, a signal or an option wants everything back that is not in use. Returns the
 * bytes. Waits for the device as the driver's own free does. */
uint64_t pool_return_all(void);

/* Around what ends CONTEXT: before the call nothing of it is handed out any more; after it,
 * GONE or not. */
void pool_context_ending(uint64_t context);
void pool_context_ended(uint64_t context, bool gone);

/* A wait for everything in CONTEXT that was submitted before `epoch` (submits_epoch(), read
 * before the wait) has succeeded. */
void pool_context_idle(uint64_t context, uint64_t epoch);

/* Adds what threads have counted to the ledger: before a report. */
void pool_publish_all(void);

#endif
