/* SPDX-License-Identifier: MIT
 *
 * When a waiting thread gives up a lock: never while others take and release it or signals arrive,
 * always if its owner has left. The first two cases do not depend on time: syscall() below decides
 * how a nap of the waiting thread ends.
 * Links: test_lock.c, lock.c, cmocka, threads.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>

#include "ledger/lock.h"

#define ENDS 6000        /* of the waiting thread's naps */
#define PATIENCE_MS 5000 /* less than ENDS naps of 1 ms */

static struct lock lock;
static _Atomic int lost, acquired, interrupted;
static enum {
	NAPS_AS_ASKED,      /* a nap ends as the kernel ends it */
	NAPS_END_BY_TIME,   /* only a wake ends a nap; lock.c sees the end of its time */
	NAPS_END_BY_SIGNAL, /* only a wake or a signal ends a nap */
} naps;

/* Replaces libc's function for lock.c. Removes the time limit of a nap unless NAPS_AS_ASKED. */
long syscall(long number, ...);
long syscall(long number, ...)
{
	long (*real)(long, ...) = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
	long argument[6], ret;
	va_list list;

	va_start(list, number);
	for (int i = 0; i < 6; i++)
		argument[i] = va_arg(list, long);
	va_end(list);
	if (number != SYS_futex || argument[1] != FUTEX_WAIT_PRIVATE || naps == NAPS_AS_ASKED)
		return real(number, argument[0], argument[1], argument[2], argument[3], argument[4],
			    argument[5]);
	ret = real(number, argument[0], argument[1], argument[2], NULL, NULL, 0);
	if (ret == -1 && errno == EINTR)
		atomic_fetch_add(&interrupted, 1);
	else if (naps == NAPS_END_BY_TIME) {
		errno = ETIMEDOUT;
		ret = -1;
	}
	return ret;
}

void lock_lost(void)
{
	atomic_fetch_add(&lost, 1);
}

void lock_sleep(void (*work)(void *data), void *data)
{
	work(data);
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

/* A third thread takes the lock each time before the waiting one does. Each nap ends without a
 * wake, as after lock_give_soon(). */
static void test_always_taken(void **state)
{
	pthread_t thread;

	(void)state;
	naps = NAPS_END_BY_TIME;
	thread = start_waiter(PATIENCE_MS);
	for (int i = 0; i < ENDS; i++) {
		wait_until_it_waits();
		atomic_store(&lock.word, 1);
		syscall(SYS_futex, &lock.word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	}
	end_waiter(thread);
}

static void ignore_signal(int number)
{
	(void)number;
}

/* Sends a signal again only after a while: the last one may have arrived between two naps, and
 * without a pause the thread could do nothing but handle signals. */
static void interrupt_nap(pthread_t thread)
{
	const int before = atomic_load(&interrupted);

	for (unsigned int tries = 0; atomic_load(&interrupted) == before; tries++) {
		assert_int_equal(atomic_load(&lost), 0);
		if (tries % 1000 == 0)
			assert_int_equal(pthread_kill(thread, SIGUSR1), 0);
		sched_yield();
	}
}

static void test_signals(void **state)
{
	const struct sigaction action = { .sa_handler = ignore_signal };
	pthread_t thread;

	(void)state;
	assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
	naps = NAPS_END_BY_SIGNAL;
	thread = start_waiter(PATIENCE_MS);
	wait_until_it_waits();
	for (int i = 0; i < ENDS; i++)
		interrupt_nap(thread);
	end_waiter(thread);
}

static void test_owner_left(void **state)
{
	pthread_t thread;

	(void)state;
	naps = NAPS_AS_ASKED;
	thread = start_waiter(30);
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
