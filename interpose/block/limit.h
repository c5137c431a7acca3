/* SPDX-License-Identifier: MIT
 *
 * GPULEAK_LIMIT and GPULEAK_FAIL_AT: allocations that are refused without asking the driver.
 * Wrappers ask; blocks.c says what became a block and what of it ended.
 */
#ifndef GPULEAK_LIMIT_H
#define GPULEAK_LIMIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "interpose/block/block_types.h"

#define LIMITS_DEVICES 64
enum { LIMITS_CURRENT = -2, LIMITS_NO_DEVICE = -1 }; /* instead of a device's number */

/* In the recorder. Devices are numbered by each API for itself. */
struct limits {
	_Atomic uint64_t calls; /* that allocate: see docs/guides/faults.md */
	_Atomic int64_t held[API_COUNT][LIMITS_DEVICES];
	_Atomic uint64_t limit[API_COUNT][LIMITS_DEVICES]; /* 0: not asked for yet */
};

/* One of the two options is set: the first thing that a wrapper looks at. */
extern _Atomic bool limits_on;

/* The options were read. */
void limits_start(void);

/* SITE's call must fail as out of memory: it is the Nth, or its BYTES on DEVICE are too many.
 * If not, they count from here on until limits_done(). */
bool limits_refuse(const struct site *site, int device, uint64_t bytes);
/* The bytes alone, of what is no allocating call. */
bool limits_exceed(const struct site *site, int device, uint64_t bytes);
#define LIMITS_REFUSE(site, device, bytes)                                                   \
	(__builtin_expect(atomic_load_explicit(&limits_on, memory_order_relaxed), 0) &&      \
	 limits_refuse((site), (device), (uint64_t)(bytes)))

/* The call is over: what no block took does not count any more. */
void limits_done_slowly(void);
static inline void limits_done(void)
{
	if (__builtin_expect(atomic_load_explicit(&limits_on, memory_order_relaxed), 0))
		limits_done_slowly();
}

/* A block of BYTES was made by HOOK on DEVICE; one of ROW has ended. */
void limits_block_made(struct recorder *recorder, const struct hook *hook, int device,
		       uint64_t bytes);
void limits_block_ended(struct recorder *recorder, uint32_t row, uint64_t bytes);

/* The limit of a device of API, and what of it is left; UINT64_MAX without one. */
uint64_t limits_of(enum api api, int device);
uint64_t limits_left(enum api api, int device);

#endif
