/* SPDX-License-Identifier: MIT
 *
 * Atomic access to memory whose type is not _Atomic.
 */
#ifndef GPULEAK_SHARED_H
#define GPULEAK_SHARED_H

#include <stdatomic.h>

/* FIELD as an _Atomic object, for the functions of <stdatomic.h>. For fields of the ledger, which
 * other processes map, and for fields that their owner also reads without atomics, for example
 * under a lock. Any other field that threads share is declared _Atomic. FIELD has at most eight
 * bytes and is aligned to its size. */
#define SHARED(field) (*(_Atomic __typeof__(field) *)&(field))

#endif
