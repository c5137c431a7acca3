/* SPDX-License-Identifier: MIT
 *
 * Waits for a lock that another thread holds. Must distinguish a lock that many threads take from
 * one whose owner will never release it. Calls the kernel only.
 */
#include "ledger/lock.h"

#include <errno.h>

#include "ledger/shared.h"

#define MS 1000000L
#define NAP_MIN MS
#define NAP_MAX (500 * MS)

unsigned int lock_patience_ms = 20000;

/* Spins for a moment. Returns 1 if it acquired LOCK, else 0. */
static int spin(struct lock *lock)
{
	for (int tries = 0; tries < 100; tries++) {
#if defined(__x86_64__)
		__builtin_ia32_pause();
#endif
		if (atomic_load_explicit(&lock->word, memory_order_relaxed) == 0 && lock_try(lock))
			return 1;
	}
	return 0;
}

struct nap {
	struct lock *lock;
	long ns;
	int result; /* 0 or -errno */
};

static void sleep_on(void *data)
{
	struct nap *nap = data;
	const struct timespec timeout = { .tv_nsec = nap->ns };

	if (syscall(SYS_futex, &nap->lock->word, FUTEX_WAIT_PRIVATE, 2, &timeout, NULL, 0) < 0)
		nap->result = -errno;
}

/* Sleeps NS nanoseconds, or until a thread releases LOCK. Returns 0 or -errno. */
static int nap_on(struct lock *lock, long ns)
{
	struct nap nap = { lock, ns, 0 };

	lock_sleep(sleep_on, &nap);
	return nap.result;
}

/* Naps and checks again, because lock_give_soon() may not wake a waiting thread. Each full nap is
 * longer than the one before, until NAP_MAX is reached. Only full naps count as waiting. If the
 * lock was released meanwhile, but a third thread took it first, the owners do release it: then the
 * count of waiting begins again at 0. */
void lock_wait(struct lock *lock)
{
	long nap = NAP_MIN, waited = 0;
	uint32_t seen;
	int r;

	if (spin(lock))
		return;
	while ((seen = atomic_exchange_explicit(&lock->word, 2, memory_order_acquire)) != 0) {
		if (seen == 1) /* another thread has acquired it since this one looked */
			waited = 0;
		if (waited / MS >= (long)shared_load(lock_patience_ms)) {
			lock_lost();
			return;
		}
		r = nap_on(lock, nap);
		if (r == -ETIMEDOUT) {
			waited += nap;
			nap = nap < NAP_MAX ? nap * 2 : nap;
			continue;
		}
		nap = NAP_MIN;
		if (r != -EINTR) /* released, or already taken again */
			waited = 0;
	}
}
