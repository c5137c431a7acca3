/* SPDX-License-Identifier: MIT
 *
 * A lock that its owner, one thread, takes and releases without an atomic operation: by two stores
 * and a load. Other threads pay for that. They set a flag, let the kernel run a barrier on every
 * processor of the process (membarrier(2)), and wait until the owner has released the lock. If the
 * kernel has no such call, or if several threads are owners, all threads take the plain lock: see
 * ALONE below.
 *
 * After the barrier, either the other thread sees `inside`, or the owner will see the flag
 * `wanted`: the owner's store of `inside` and its load of `wanted` cannot both have been moved
 * across the barrier. An owner that sees the flag takes the plain lock, which the other thread
 * holds.
 */
#pragma once

#include <linux/membarrier.h>
#include <sched.h>
#include <stdbool.h>
#include <time.h>

#include "interpose/base/hot.h"
#include "ledger/lock.h"
#include "ledger/nocancel.h"
#include "ledger/shared.h"

#define OWNER_LOCK_NAPS_PER_MS 20u

struct owner_lock {
	_Atomic bool inside; /* the owner has the lock; written by the owner */
	/* another thread wants or has the lock; written by the holder of `lock` */
	_Atomic bool wanted;
	bool locked;         /* the owner has taken the plain lock */
	struct lock lock;
};

/* Returns true if the kernel has the barrier, so that an owner need not take the plain lock. Call
 * it once for the process, before there are owners. */
static inline bool owner_lock_possible(void)
{
	return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

static COLD void owner_lock_wait(struct owner_lock *own)
{
	lock_take(&own->lock);
	own->locked = true;
}

/* For the owner. ALONE: there is one owner, and owner_lock_possible() was true. */
static HOT void owner_lock_take(struct owner_lock *own, bool alone)
{
	if (__builtin_expect(alone, 1)) {
		atomic_store_explicit(&own->inside, true, memory_order_relaxed);
		atomic_signal_fence(memory_order_seq_cst);
		if (__builtin_expect(!atomic_load_explicit(&own->wanted, memory_order_acquire), 1))
			return;
		atomic_store_explicit(&own->inside, false, memory_order_release);
	}
	owner_lock_wait(own);
}

static HOT void owner_lock_give(struct owner_lock *own)
{
	if (__builtin_expect(own->locked, 0)) {
		own->locked = false;
		lock_give(&own->lock);
	} else {
		atomic_store_explicit(&own->inside, false, memory_order_release);
	}
}

/* For other threads. The owner has the lock for a few instructions only. But if its priority is
 * lower than this thread's, it may run again only while this thread sleeps. */
static inline void owner_lock_take_from(struct owner_lock *own, bool alone)
{
	static const struct timespec nap = { 0, 1000000 / OWNER_LOCK_NAPS_PER_MS };
	unsigned int spins = 0;

	lock_take(&own->lock);
	if (!alone)
		return;
	atomic_store_explicit(&own->wanted, true, memory_order_relaxed);
	syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
	while (atomic_load_explicit(&own->inside, memory_order_acquire)) {
		if (++spins < 100) {
			sched_yield();
		} else if (spins / OWNER_LOCK_NAPS_PER_MS < shared_load(lock_patience_ms)) {
			nocancel_nanosleep(&nap);
		} else { /* the owner never released it, for example because of a longjmp */
			lock_lost();
			return;
		}
	}
}

static inline void owner_lock_give_back(struct owner_lock *own)
{
	atomic_store_explicit(&own->wanted, false, memory_order_release);
	lock_give(&own->lock);
}
