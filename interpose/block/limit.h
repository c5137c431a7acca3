/* SPDX-License-Identifier: MIT
 *
 * GPULEAK_LIMIT and GPULEAK_FAIL_AT: allocations that gpuleak refuses without calling the driver.
 * Wrappers call limits_refuse() first; the other files of this folder report each block that was
 * made or ended.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "interpose/block/block_types.h"
#include "interpose/refusal/out_of_memory.h"

#define LIMITS_DEVICES 64
enum { LIMITS_CURRENT = -2, LIMITS_NO_DEVICE = -1 }; /* instead of a device number */

/* Part of the recorder. Each API numbers its own devices. */
struct limits {
	_Atomic uint64_t calls; /* number of calls that allocate, see docs/guides/faults.md */
	/* bytes that count against the limit: live blocks, and calls in progress */
	_Atomic int64_t held[API_COUNT][LIMITS_DEVICES];
	_Atomic uint64_t limit[API_COUNT][LIMITS_DEVICES]; /* 0: not determined yet */
};

/* Returns true if one of the two options is set. Every wrapper checks it first. */
static inline bool limits_on(void)
{
	return atomic_load_explicit(&alloc_checks, memory_order_relaxed) & CHECK_LIMITS;
}

/* Sets CHECK_LIMITS. Called after the options were read. */
void limits_start(void);

/* Returns true if CALL must fail as out of memory: GPULEAK_FAIL_AT selects it, or BYTES exceed what
 * is left of the limit of DEVICE. If false, BYTES count against the limit until limits_done(). */
bool limits_refuse(const struct call *call, int device, uint64_t bytes);
/* The driver refused CALL for want of memory: see out_of_memory_record(). DEVICE may be
 * LIMITS_CURRENT. */
COLD void limits_record_refusal(const struct call *call, int device, uint64_t bytes);
/* Like limits_refuse(), but for a call that does not allocate: checks only BYTES. */
bool limits_exceed(const struct call *call, int device, uint64_t bytes);
#define LIMITS_REFUSE(call, device, bytes)                                                   \
	(__builtin_expect(limits_on(), 0) &&                                        \
	 limits_refuse((call), (device), (uint64_t)(bytes)))

/* Ends the reservation of the calling thread's call. Reserved bytes that did not become a block's
 * bytes do not count any more. After an awaited peak, reads the driver's memory pools. */
void limits_done_slowly(void);
static inline void limits_done(void)
{
	if (__builtin_expect(atomic_load_explicit(&alloc_checks, memory_order_relaxed) &
				     (CHECK_LIMITS | CHECK_PEAK),
			     0))
		limits_done_slowly();
}

/* Records that HOOK made a block of BYTES on DEVICE; that a block of call site SITE ended or was
 * released, with a negative number of BYTES; that a released one has a reference again. Takes no
 * lock. */
void limits_block_made(struct recorder *recorder, const struct hook *hook, int device,
		       uint64_t bytes);
void limits_block_changed(struct recorder *recorder, uint32_t site, int64_t bytes);

/* The first returns the limit of a device of API in bytes, the second the bytes left of that limit.
 * Both return UINT64_MAX if there is no limit. */
uint64_t limits_of(enum api api, int device);
uint64_t limits_left(enum api api, int device);
