/* SPDX-License-Identifier: MIT
 *
 * When a waiting thread gives up a lock: never while others take and release it or signals arrive,
 * always if its owner has left.
 * Links: test_lock.c, lock.c, cmocka, threads.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include "ledger/lock.h"

#define ENDS 6000        /* of the waiting thread's naps */
#define PATIENCE_MS 5000 /* less than ENDS naps of 1 ms, and more than a loaded machine pauses */

static struct lock lock;
static _Atomic int lost, acquired, signals;

void lock_lost(void)
{
	atomic_fetch_add(&lost, 1);
}

static void *waiter(void *unused)
{
	lock_wait(&lock);
	atomic_store(&acquired, 1);
	return unused;
}

/* Starts a thread that waits for the lock, which this thread holds. */
static pthread_t start_waiter(unsigned int patience_ms)
{
	pthread_t thread;

	lock_patience_ms = patience_ms;
	atomic_store(&lost, 0);
	atomic_store(&acquired, 0);
	atomic_store(&lock.word, 1);
	assert_int_equal(pthread_create(&thread, NULL, waiter, NULL), 0);
	return thread;
}

static void wait_until_it_waits(void)
{
	while (atomic_load(&lock.word) != 2) {
		assert_int_equal(atomic_load(&lost), 0);
		sched_yield();
	}
}

static void end_waiter(pthread_t thread)
{
	lock_give(&lock);
	pthread_join(thread, NULL);
	assert_int_equal(atomic_load(&acquired), 1);
	assert_int_equal(atomic_load(&lost), 0);
}

/* A third thread takes the lock each time before the waiting one does. */
static void test_always_taken(void **state)
{
	pthread_t thread = start_waiter(PATIENCE_MS);

	(void)state;
	for (int i = 0; i < ENDS; i++) {
		wait_until_it_waits();
		atomic_store(&lock.word, 1);
		syscall(SYS_futex, &lock.word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	}
	end_waiter(thread);
}

static void count_signal(int number)
{
	(void)number;
	atomic_fetch_add(&signals, 1);
}

static void test_signals(void **state)
{
	const struct sigaction action = { .sa_handler = count_signal };
	pthread_t thread = start_waiter(PATIENCE_MS);

	(void)state;
	assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
	wait_until_it_waits();
	for (int i = 0; i < ENDS; i++) {
		assert_int_equal(pthread_kill(thread, SIGUSR1), 0);
		while (atomic_load(&signals) <= i) {
			assert_int_equal(atomic_load(&lost), 0);
			sched_yield();
		}
	}
	end_waiter(thread);
}

static void test_owner_left(void **state)
{
	pthread_t thread = start_waiter(30);

	(void)state;
	pthread_join(thread, NULL);
	assert_int_equal(atomic_load(&lost), 1);
	assert_int_equal(atomic_load(&acquired), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_always_taken), cmocka_unit_test(test_signals),
		cmocka_unit_test(test_owner_left),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
