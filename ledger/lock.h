/* SPDX-License-Identifier: MIT
 *
 * A lock that is one 32-bit word. It is safe inside a foreign process: no pthread state, no
 * allocation. Zero is unlocked. A thread makes a system call only if it must wait or wake
 * another thread. No thread may hold a lock across a call into the driver, the loader or the
 * application.
 */
#pragma once

#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct lock {
	_Atomic uint32_t word; /* 0: unlocked, 1: locked, 2: locked and another thread waits */
};

/* A waiting thread takes the lock from its owner after it has slept for this many milliseconds. The
 * owner may have left gpuleak by longjmp, an exception or cancellation, and then never releases the
 * lock. Only completed naps are counted, because the process may be stopped meanwhile. If other
 * threads take and release the lock, the count begins again. */
extern unsigned int lock_patience_ms;

/* lock_wait() calls this when the owner will not release the lock. The data that the lock guards
 * may be inconsistent, so recording must stop. */
void lock_lost(void);

/* lock_wait() sleeps by this: calls WORK(DATA), which may take long, where signals of the
 * application can be handled. A thread that a signal stopped may hold the lock, and the thread that
 * sent the signal may wait until this thread has handled it, too. */
void lock_sleep(void (*work)(void *data), void *data);

/* Acquires LOCK and returns 1, or returns 0 at once if another thread holds it. */
static inline int lock_try(struct lock *lock)
{
	uint32_t expected = 0;

	return atomic_compare_exchange_strong_explicit(&lock->word, &expected, 1,
						       memory_order_acquire, memory_order_relaxed);
}

/* A test defines this to count acquisitions. */
#ifndef LOCK_TAKEN
#define LOCK_TAKEN(lock)
#endif

/* Waits until LOCK, which another thread holds, is released, and acquires it. */
__attribute__((cold)) void lock_wait(struct lock *lock);

/* Acquires LOCK and waits if necessary. Not recursive. */
static inline void lock_take(struct lock *lock)
{
	LOCK_TAKEN(lock);
	if (__builtin_expect(!lock_try(lock), 0))
		lock_wait(lock);
}

/* Releases LOCK and wakes a waiting thread. */
static inline void lock_give(struct lock *lock)
{
	if (atomic_exchange_explicit(&lock->word, 0, memory_order_release) == 2)
		syscall(SYS_futex, &lock->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* Releases LOCK with a load and a store instead of an atomic exchange, which is a third of the cost
 * of an uncontended lock. Use it only for locks held for a few instructions. If a thread begins to
 * wait between the load and the store, it is not woken, but checks again after its nap. */
static inline void lock_give_soon(struct lock *lock)
{
	uint32_t seen = atomic_load_explicit(&lock->word, memory_order_relaxed);

	atomic_store_explicit(&lock->word, 0, memory_order_release);
	if (__builtin_expect(seen == 2, 0))
		syscall(SYS_futex, &lock->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
