/* SPDX-License-Identifier: MIT
 *
 * Owns the word of submit_epoch.h, and the flag that the word is not reliable.
 */
#include "interpose/base/submit_epoch.h"

#include "interpose/base/hot.h"

/* Alone on its cache line, because every thread reads it at every submission. */
_Alignas(64) _Atomic uint64_t submits_word;
_Atomic bool submits_uncertain READ_BY_ALL;

void submits_unknown(void)
{
	atomic_store(&submits_uncertain, true);
}
