/* SPDX-License-Identifier: MIT
 *
 * The word of submits.h, and whether it can be believed.
 */
#include "submits.h"

/* Alone on its line: every thread reads it at every submission. */
_Alignas(64) _Atomic uint64_t submits_word;
static _Alignas(64) _Atomic bool uncertain;

bool submits_certain(void)
{
	return !atomic_load_explicit(&uncertain, memory_order_relaxed);
}

void submits_unknown(void)
{
	atomic_store(&uncertain, true);
}
