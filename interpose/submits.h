/* SPDX-License-Identifier: MIT
 *
 * Has the application submitted work since somebody asked last? One word for the process:
 * an epoch, and whether anything was submitted in it. Wrappers of calls that submit note it
 * AFTER the driver's call, which is enough: memory that a call uses is not freed before that call
 * has returned. A submission costs one load while the epoch has one already.
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
bool submits_certain(void);
void submits_unknown(void);

#endif
