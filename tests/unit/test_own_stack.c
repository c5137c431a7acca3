/* SPDX-License-Identifier: MIT
 *
 * Signals while a thread works on a stack of gpuleak's own: which of them wait, where their
 * handlers run, and which mask they find.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "interpose/base/own_stack.h"
#include "ledger/lock.h"

static uintptr_t stack_low, stack_high; /* of the thread that works aside */
static _Atomic unsigned int handled, elsewhere;
static unsigned int depths[4];

static void find_stack(void)
{
	pthread_attr_t attributes;
	void *low;
	size_t bytes;

	assert_int_equal(pthread_getattr_np(pthread_self(), &attributes), 0);
	assert_int_equal(pthread_attr_getstack(&attributes, &low, &bytes), 0);
	pthread_attr_destroy(&attributes);
	stack_low = (uintptr_t)low;
	stack_high = stack_low + bytes;
}

static void on_signal(int number)
{
	uintptr_t frame = (uintptr_t)__builtin_frame_address(0);

	(void)number;
	elsewhere += frame < stack_low || frame >= stack_high;
	handled++;
}

static void handle(int number, void (*handler)(int))
{
	const struct sigaction action = { .sa_handler = handler, .sa_flags = SA_NODEFER };

	assert_int_equal(sigaction(number, &action, NULL), 0);
	handled = elsewhere = 0;
}

static sigset_t mask_now(void)
{
	sigset_t ret;

	memset(&ret, 0, sizeof(ret)); /* libc fills only a part of it */
	pthread_sigmask(SIG_SETMASK, NULL, &ret);
	return ret;
}

static void raise_and_look(void *data)
{
	unsigned int *ret = data;

	assert_int_equal(aside_depth(), 1);
	raise(SIGUSR1);
	*ret = handled;
	raise(SIGSEGV);
}

static void test_waits(void **state)
{
	sigset_t before, after;
	unsigned int inside = 1;

	(void)state;
	find_stack();
	handle(SIGSEGV, SIG_IGN);
	handle(SIGUSR1, on_signal);
	before = mask_now();
	aside(raise_and_look, &inside);
	after = mask_now();
	assert_int_equal(inside, 0);
	assert_int_equal(handled, 1);
	assert_int_equal(elsewhere, 0);
	assert_int_equal(aside_depth(), 0);
	assert_memory_equal(&before, &after, sizeof(before));
}

static void raise_segv(void *data)
{
	(void)data;
	raise(SIGSEGV);
	assert_int_equal(handled, 1);
}

static void test_synchronous(void **state)
{
	(void)state;
	handle(SIGSEGV, on_signal);
	aside(raise_segv, NULL);
	assert_int_equal(handled, 1);
}

static void raise_usr1(void *data)
{
	(void)data;
	raise(SIGUSR1);
}

/* Each handler runs at the end of another aside(). */
static void nest(int number)
{
	(void)number;
	depths[handled++] = aside_depth();
	if (handled < 3)
		aside(raise_usr1, NULL);
}

static void test_depth(void **state)
{
	(void)state;
	handle(SIGUSR1, nest);
	aside(raise_usr1, NULL);
	assert_int_equal(handled, 3);
	for (unsigned int i = 0; i < 3; i++)
		assert_int_equal(depths[i], i + 1);
	assert_int_equal(aside_depth(), 0);
}

/* ---- a thread that waits for a lock ---- */

static struct lock lock;
static _Atomic bool waits;

static void wait_for_lock(void *data)
{
	(void)data;
	waits = true;
	lock_take(&lock);
	lock_give(&lock);
}

static void *work_aside(void *data)
{
	find_stack();
	aside(wait_for_lock, NULL);
	return data;
}

/* A collector stops the owner of the lock first, and then this thread. */
static void test_lock(void **state)
{
	pthread_t thread;

	(void)state;
	handle(SIGUSR1, on_signal);
	lock_take(&lock);
	assert_int_equal(pthread_create(&thread, NULL, work_aside, NULL), 0);
	while (!waits)
		usleep(1000);
	pthread_kill(thread, SIGUSR1);
	for (int ms = 0; ms < 10000 && !handled; ms++)
		usleep(1000);
	assert_int_equal(handled, 1);
	lock_give(&lock);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(elsewhere, 0);
}

/* ---- a jump out of the work ---- */

/* Not with ASan, which does not know that the frames on the other stack are gone. */
#ifndef __SANITIZE_ADDRESS__

static sigjmp_buf back;

static void jump(int number)
{
	(void)number;
	siglongjmp(back, 1);
}

static void test_jump(void **state)
{
	(void)state;
	handle(SIGSEGV, jump);
	if (sigsetjmp(back, 0) == 0)
		aside(raise_segv, NULL);
	handle(SIGUSR1, on_signal);
	find_stack();
	raise(SIGUSR1);
	assert_int_equal(handled, 0);
	aside_release_left();
	assert_int_equal(handled, 1);
	assert_int_equal(aside_depth(), 0);
}

#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_waits),
		cmocka_unit_test(test_synchronous),
		cmocka_unit_test(test_depth),
		cmocka_unit_test(test_lock),
#ifndef __SANITIZE_ADDRESS__
		cmocka_unit_test(test_jump),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
