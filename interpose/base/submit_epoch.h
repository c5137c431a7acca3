/* SPDX-License-Identifier: MIT
 *
 * Has the application submitted work since somebody asked last? One word for the process:
 * an epoch, and whether anything was submitted in it. Wrappers of calls that submit note it
 * AFTER the driver's call, which is enough: memory that a call uses is not freed before that call
 * has returned. A submission costs one load while the epoch has one already.
 *
 * The promise: who reads epoch E, then has the driver record an event, and later frees in
 * epoch E again, needs no other event. Let S be a submission to the same context that was noted
 * before that free. The driver orders S and the recording by means of its own.
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

/* The present epoch, in which nothing was submitted yet: a new one if something was. Two
 * equal answers: nothing was submitted between them, as far as submits_certain(). */
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

/* Every way to submit work that this process has is one that we see. False for good once an
 * unknown function of the driver was handed out (a lookup, an export table), or a library
 * reached the driver past us: then each submits_epoch() must be taken for a new one. */
void submits_unknown(void);
extern _Atomic bool submits_uncertain __attribute__((visibility("hidden")));
static inline bool submits_certain(void)
{
	return !atomic_load_explicit(&submits_uncertain, memory_order_relaxed);
}

#endif
