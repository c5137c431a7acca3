/* SPDX-License-Identifier: MIT
 *
 * The word of submits.h, and whether it can be believed.
 */
#include "submits.h"

/* Alone on its line: every thread reads it at every submission. */
_Alignas(64) _Atomic uint64_t submits_word;
_Alignas(64) _Atomic bool submits_uncertain;

void submits_unknown(void)
{
	atomic_store(&submits_uncertain, true);
}
