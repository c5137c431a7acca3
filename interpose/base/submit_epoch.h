/* SPDX-License-Identifier: MIT
 *
 * Records whether the application submitted work: one word for the process, with an epoch and
 * whether anything was submitted in it. A wrapper notes a submission AFTER the driver's call. That
 * is early enough: memory that a call uses is not freed before the call has returned. If the
 * epoch has a submission already, another one costs one load.
 *
 * The promise: a thread reads epoch E, then records an event. A later free that reads epoch E
 * again needs no other event. Let S be a submission to the same context that was noted before
 * that free. The driver orders S and the recording itself.
 *   S first: the event covers it.
 *   The recording first: then what came before it, reading E, happened before S, and S's note
 *   read a word of epoch E or later. It either found SUBMITS_ANY there or set it; whatever
 *   word it saw or wrote, the free sees that or a later one of the same word, and the epoch
 *   that it is given is past E.
 * So no order between the note and other threads' reads is needed beyond that of the one word:
 * a note that finds SUBMITS_ANY set may be a relaxed load.
 */
#ifndef GPULEAK_SUBMITS_H
#define GPULEAK_SUBMITS_H

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

/* Returns the present epoch, in which nothing was submitted yet. Begins a new epoch if something
 * was. Two equal results: nothing was submitted between the calls, if submits_certain(). */
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

#endif
