/* SPDX-License-Identifier: MIT
 *
 * The first use of each kernel: then the driver may load its code, and allocate local memory and
 * the heaps of printf() and malloc(). Measures that. Inline, because each launch checks whether it
 * is the first one. Any thread may call these functions. Must not allocate or wait.
 */
#ifndef GPULEAK_FIRST_USE_H
#define GPULEAK_FIRST_USE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "interpose/base/hash.h"
#include "interpose/base/hot.h"
#include "interpose/block/driver_growth.h"

/* Handles that were used. A handle whose neighbours are all taken counts as used. So does a handle
 * that the driver gives to another kernel after the first one was unloaded: what that other kernel
 * takes is not measured. */
#define FIRST_USE_SLOTS 8192u
#define FIRST_USE_PROBES 8u
extern _Atomic uint64_t first_use_slots[FIRST_USE_SLOTS] __attribute__((visibility("hidden")));

struct first_use {
	struct driver_growth growth;
	uint64_t stack_limit; /* bytes of local memory for each thread, before the call */
};

/* Returns the slot where HANDLE is searched in the PROBE-th try (from 0). */
static HOT _Atomic uint64_t *first_use_slot(uint64_t handle, uint32_t probe)
{
	return &first_use_slots[((uint32_t)(TABLE_MIX(handle) >> 40) + probe) % FIRST_USE_SLOTS];
}

static HOT bool first_use_is_known(uint64_t handle)
{
	for (uint32_t i = 0; i < FIRST_USE_PROBES; i++) {
		uint64_t seen = atomic_load_explicit(first_use_slot(handle, i),
						     memory_order_relaxed);

		if (__builtin_expect(seen == handle, 1))
			return true;
		if (!seen)
			return false;
	}
	return true;
}

/* Enters HANDLE into the table. Returns false if another thread has done so. Otherwise begins to
 * measure. */
COLD bool first_use_begin_slowly(struct first_use *ret, uint64_t handle);

/* Before the driver's call that uses HANDLE. Returns true if it is the first such call: then
 * first_use_end() must follow. */
static HOT bool first_use_begin(struct first_use *ret, uint64_t handle)
{
	return __builtin_expect(!first_use_is_known(handle), 0) && handle &&
	       first_use_begin_slowly(ret, handle);
}

/* After the call. DONE: it succeeded. */
COLD void first_use_end(const struct call *call, struct first_use *first, bool done);

#endif
