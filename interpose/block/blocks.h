/* SPDX-License-Identifier: MIT
 *
 * The recording of allocations and frees, for the wrappers of every API. One table has the live
 * block of each address or handle, and the last blocks of freed addresses. The record_ functions
 * may be called by any thread, also from a signal handler. They keep errno, and they report no
 * failure to the caller: what could not be recorded is counted in the ledger.
 */
#pragma once

#include "interpose/block/call.h"

/* ---- allocations ---- */

/* Call this after the driver's call. Records that the driver allocated BYTES at ADDRESS. CONTEXT 0
 * and DEVICE -1 mean unknown. */
void record_made(struct call *call, uint64_t address, uint64_t bytes, uint64_t context, int device,
		 uint64_t parent);
/* The same for a block that the pool allocated: CALL is still inside the recorder. */
void record_made_pooled(struct call *call, uint64_t address, uint64_t bytes, uint64_t context,
			int device);

/* A block that the table knows by another number than the address in a report, or whose address
 * range is not memory of its own. */
struct made {
	uint64_t number; /* an address or a handle */
	uint64_t address;
	uint64_t span;  /* size of the address range in bytes */
	uint64_t bytes; /* of memory */
	int device;
	bool shared; /* if NUMBER has a live block, it gets one more reference instead */
	uint64_t parent, context; /* see struct ledger_block */
};
/* As record_made(), for MADE. Returns the block's record, which does not move until the block ends;
 * NULL if it was not recorded, or if a live block got a reference instead. */
struct ledger_block *record_block(struct call *call, const struct made *made);

/* Returns the stack of a call, for a block that a later call allocates: a ref, 0 if unknown. */
uint32_t record_origin(const struct call *call);
/* Records a block like record_made(), but with the STACK of an earlier call, which record_origin()
 * returned during that call. */
void record_made_from(struct call *call, uint32_t stack, uint64_t address, uint64_t bytes,
		      int device);

/* ---- frees ---- */

/* Call record_freeing() before the driver's call and record_freed() after it. The block leaves the
 * table before the call, because the driver may give the address to another thread at once. It is
 * put back if the free fails. A call that frees several blocks has a struct freeing for each. */
void record_freeing(struct call *call, uint64_t address, struct freeing *ret);
/* The same for a block that the pool may cache. CALL has begun. If RET->hint is not NULL
 * afterwards, the block is the pool's and CALL stays inside the recorder. KNOWN: the pool's hint
 * for ADDRESS, or NULL; it saves a look-up in the table. */
void record_freeing_pooled(struct call *call, uint64_t address, const struct block_hint *known,
			   struct freeing *ret);
void record_freed(struct call *call, struct freeing *freeing, enum outcome outcome, int result);

/* Call one of these instead of record_freed() if the driver freed nothing: the block is put back.
 * record_misused() also records an error: the call was refused because of the live block that
 * MISUSE names. */
void record_kept(struct freeing *freeing);
void record_misused(struct hook *hook, struct freeing *freeing, const struct misuse *misuse,
		    int result);

/* The call FROM has destroyed or reset CONTEXT: ends every block in it. */
void record_context_gone(const struct call *from, uint64_t context);

/* ---- references of handles: free.c ---- */

/* After the driver's call: adds a reference. Returns true if the handle is known. */
bool record_retained(struct call *call, uint64_t handle);
/* Adds BY references, which may be negative, to a handle that keeps at least one. They have no
 * history. Returns how many were added. */
int64_t record_references(const struct call *call, uint64_t handle, int64_t by);
/* Call record_releasing() before the driver's call and record_released() after it. They remove a
 * reference; without references the block ends. */
void record_releasing(struct call *call, uint64_t handle, struct freeing *ret);
void record_released(struct call *call, struct freeing *freeing, enum outcome outcome, int result);
/* Between record_releasing() and the driver's call, if FREEING->unused is not 0: the driver has
 * been requested to report the block's end with that number. */
void record_watch_release(struct freeing *freeing);

/* ---- queries ---- */

/* Returns true if a live block begins at ADDRESS. */
bool record_is_live(const struct call *call, uint64_t address);
/* Returns the device of the live linear block at ADDRESS; -1 if unknown. */
int record_device_of(uint64_t address);
/* For a call that uses HANDLE of SPACE. Returns the ledger's name of the block that HANDLE has,
 * live or deferred. Returns 0 if HANDLE has no block. If the block was made with WATCHED_LATER and
 * this is its first use, stores the number in *RET_WATCH: the caller requests the driver to report
 * the block's end with it. */
uint64_t record_use(struct recorder *recorder, enum space space, uint64_t handle,
		    uint64_t *ret_watch);
/* The same for a call that does not use HANDLE. */
static inline uint64_t record_name_of(struct recorder *recorder, enum space space, uint64_t handle)
{
	return record_use(recorder, space, handle, NULL);
}
/* The driver refused the request: the block ends with its last reference. */
void record_unwatched(enum space space, uint64_t handle, uint64_t watched);

/* ---- driver calls that were left: see driver_call.h ---- */

/* Called by a wrapper whose frame is FRAME if the thread is still marked as inside an earlier
 * driver call. If that call was left by longjmp, an exception or cancellation, the block that it
 * was freeing becomes live again. */
void record_call_left(const uintptr_t *frame);
/* Does the same for the driver call inside which the thread ends. */
void record_calls_end(void);
