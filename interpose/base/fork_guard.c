/* SPDX-License-Identifier: MIT
 *
 * Counts the threads that may hold a lock of a library. A thread in libc's fork() waits until no
 * other thread may hold one, and the other threads wait until the fork is over. Neither waits for
 * long, because a thread may hold what an atfork handler of the application wants. Then the child
 * does not call libunwind.
 */
#include "interpose/base/fork_guard.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "interpose/base/own_stack.h"
#include "ledger/nocancel.h"

#define NAP_NS 100000
#define FORK_NAPS 10000u /* about a second */
#define ENTRY_NAPS 2000u

static _Atomic unsigned int forking; /* threads that are in fork() */
static _Atomic unsigned int inside;
static _Atomic bool locked;
/* of the calling thread: sections that it is in; whether it is in fork() */
static __thread unsigned int depth;
static __thread bool forks;

static void nap(void *unused)
{
	const struct timespec time = { .tv_nsec = NAP_NS };

	(void)unused;
	nocancel_nanosleep(&time);
}

void fork_guard_enter(void)
{
	if (depth++)
		return;
	for (unsigned int naps = 0;; naps++) {
		atomic_fetch_add(&inside, 1);
		/* An atfork handler of the application may make a GPU call. */
		if (!atomic_load(&forking) || forks || naps == ENTRY_NAPS)
			return;
		atomic_fetch_sub(&inside, 1);
		aside_outside(nap, NULL);
	}
}

void fork_guard_leave(void)
{
	if (--depth == 0)
		atomic_fetch_sub(&inside, 1);
}

void fork_guard_left(void)
{
	if (depth)
		atomic_fetch_sub(&inside, 1);
	depth = 0;
}

bool fork_guard_is_locked(void)
{
	return atomic_load_explicit(&locked, memory_order_relaxed);
}

int fork_guard_iterate(int (*callback)(struct dl_phdr_info *info, size_t size, void *data),
		       void *data)
{
	int ret;

	fork_guard_enter();
	ret = dl_iterate_phdr(callback, data);
	fork_guard_leave();
	return ret;
}

static bool others_are_inside(void)
{
	return atomic_load(&inside) > (depth ? 1 : 0);
}

static void before_fork(void)
{
	forks = true;
	atomic_fetch_add(&forking, 1);
	for (unsigned int naps = 0; naps < FORK_NAPS && others_are_inside(); naps++)
		nap(NULL);
}

static void after_fork(void)
{
	atomic_fetch_sub(&forking, 1);
	forks = false;
}

static void in_child(void)
{
	if (others_are_inside())
		atomic_store(&locked, true);
	atomic_store(&inside, depth ? 1 : 0);
	atomic_store(&forking, 0);
	forks = false;
}

void fork_guard_start(void)
{
	static _Atomic bool started;

	if (!atomic_exchange(&started, true))
		pthread_atfork(before_fork, after_fork, in_child);
}
