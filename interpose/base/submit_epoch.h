/* SPDX-License-Identifier: MIT
 *
 * Records whether the application submitted work to a device. One word of the process has the
 * number of the present epoch, and a flag: work was submitted in this epoch. Reading the epoch
 * begins a new one if the flag is set. A wrapper notes a submission AFTER the driver's call. That
 * is early enough: memory that a call uses is not freed before the call has returned. If the epoch
 * has a submission already, another one costs one load.
 *
 * The promise: if a thread reads epoch E and then records an event, and a later free reads epoch E
 * again, the event covers all work that was submitted before the free. So the free needs no other
 * event. Proof: let S be a submission to the same context that was noted before the free. The
 * driver orders S and the recording of the event.
 *   If S is first, the event covers it.
 *   If the recording is first, the thread had read E before the driver got S. So the note of S read
 *   the word in epoch E or later, and either found SUBMITS_ANY set or set it. The free reads the
 *   word as this note left it, or a later value. So it gets an epoch after E, and not E.
 * So the note needs no memory order beyond the order of changes of the one word: a note that finds
 * SUBMITS_ANY set may be a relaxed load.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define SUBMITS_ANY ((uint64_t)1)
extern _Atomic uint64_t submits_word; /* epoch << 1 | SUBMITS_ANY */

static inline void submits_note(void)
{
	uint64_t word = atomic_load_explicit(&submits_word, memory_order_relaxed);

	while (!(word & SUBMITS_ANY) &&
	       !atomic_compare_exchange_weak_explicit(&submits_word, &word, word | SUBMITS_ANY,
						      memory_order_release, memory_order_relaxed))
		;
}

/* Returns the number of the present epoch. If work was submitted in it, begins a new epoch first.
 * If two calls return the same number and submits_certain() returns true, no work was submitted
 * between them. */
static inline uint64_t submits_epoch(void)
{
	uint64_t word = atomic_load_explicit(&submits_word, memory_order_acquire);

	while (word & SUBMITS_ANY)
		if (atomic_compare_exchange_weak_explicit(&submits_word, &word, word + SUBMITS_ANY,
							  memory_order_acq_rel,
							  memory_order_acquire))
			word += SUBMITS_ANY;
	return word >> 1;
}

/* Makes submits_certain() return false permanently. Call this if a lookup or an export table
 * returned an unknown function of the driver, or if a library called the driver directly. */
void submits_unknown(void);
extern _Atomic bool submits_uncertain __attribute__((visibility("hidden")));
/* Returns true if the library intercepts every way to submit work. If it returns false, each
 * submits_epoch() must be treated as a new epoch. */
static inline bool submits_certain(void)
{
	return !atomic_load_explicit(&submits_uncertain, memory_order_relaxed);
}
