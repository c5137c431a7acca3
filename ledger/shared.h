/* SPDX-License-Identifier: MIT
 *
 * Atomic access to fields that threads or processes share, also to those that are not _Atomic.
 */
#pragma once

#include <stdatomic.h>

/* FIELD as an _Atomic object, for the functions of <stdatomic.h>. For fields of the ledger, which
 * other processes map, and for fields that their owner also reads without atomics, for example
 * under a lock. Any other field that threads share is declared _Atomic. FIELD has at most eight
 * bytes and is aligned to its size. */
#define SHARED(field) (*(_Atomic __typeof__(field) *)&(field))

/* The usual accesses to FIELD, which is _Atomic or as above. The first three are relaxed, and
 * shared_add() returns the value before. A thread that reads with shared_load_acquire() what
 * another one has stored with shared_publish() sees all that the other one stored before. */
#define shared_load(field) atomic_load_explicit(&SHARED(field), memory_order_relaxed)
#define shared_store(field, value) \
	atomic_store_explicit(&SHARED(field), value, memory_order_relaxed)
#define shared_add(field, amount) \
	atomic_fetch_add_explicit(&SHARED(field), amount, memory_order_relaxed)
#define shared_load_acquire(field) atomic_load_explicit(&SHARED(field), memory_order_acquire)
#define shared_publish(field, value) \
	atomic_store_explicit(&SHARED(field), value, memory_order_release)
#define shared_add_ordered(field, amount) \
	atomic_fetch_add_explicit(&SHARED(field), amount, memory_order_acq_rel)
