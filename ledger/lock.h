/* SPDX-License-Identifier: MIT
 *
 * A lock of one word for a foreign process: no pthread state, no allocation; zero is unlocked;
 * makes system calls only if a thread waits. Never held across a call into the driver, the
 * loader or the application.
 */
#ifndef GPULEAK_LEDGER_LOCK_H
#define GPULEAK_LEDGER_LOCK_H

#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct lock {
	_Atomic uint32_t word; /* 0 free, 1 held, 2 held and waited for */
};

/* How many naps a waiting thread takes before it takes the lock over: the owner left gpuleak by
 * longjmp, an exception or cancellation and will not release it. Counts naps and not time, because
 * a process may be stopped meanwhile. The default is at least 20 seconds. */
extern unsigned int lock_patience_naps;

/* Called when the owner of the lock will not release it: the data it guards may be inconsistent, so
 * recording must not continue. */
void lock_lost(void);

static inline int lock_try(struct lock *lock)
{
	uint32_t expected = 0;

	return atomic_compare_exchange_strong_explicit(&lock->word, &expected, 1,
						       memory_order_acquire, memory_order_relaxed);
}

/* For tests that count. */
#ifndef LOCK_TAKEN
#define LOCK_TAKEN(lock)
#endif

/* Takes LOCK, which another thread holds. */
__attribute__((cold)) void lock_wait(struct lock *lock);

static inline void lock_take(struct lock *lock)
{
	LOCK_TAKEN(lock);
	if (__builtin_expect(!lock_try(lock), 0))
		lock_wait(lock);
}

static inline void lock_give(struct lock *lock)
{
	if (atomic_exchange_explicit(&lock->word, 0, memory_order_release) == 2)
		syscall(SYS_futex, &lock->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* Releases LOCK without an atomic exchange, which is a third of an uncontended lock's cost, for
 * locks that are held for a few instructions: a thread that begins to wait between the load and the
 * store is not woken. */
static inline void lock_give_soon(struct lock *lock)
{
	uint32_t seen = atomic_load_explicit(&lock->word, memory_order_relaxed);

	atomic_store_explicit(&lock->word, 0, memory_order_release);
	if (__builtin_expect(seen == 2, 0))
		syscall(SYS_futex, &lock->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

#endif
