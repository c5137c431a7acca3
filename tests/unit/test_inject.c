/* SPDX-License-Identifier: MIT
 *
 * Calls a function again and again in a process that waits in each of the calls of the kernel in
 * which threads wait, or computes, or allocates: it must not notice.
 * Links: test_inject.c, tools/attach/{inject,remote,stub,tracee}.c, tools/launch/process.c, cmocka.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tools/attach/inject.h"
#include "tools/attach/remote.h"

#define ROUNDS 10
#define MS 30 /* each wait */
#define ERRNO_OF_TEST 77

struct shared {
	volatile int stop, wrong, ready, handled;
	volatile int busy; /* so many times a thread gets no time to stop */
	char what[80];
};
static struct shared *shared;

static void wrong(const char *what, long number)
{
	if (!shared->stop && !shared->wrong++)
		snprintf(shared->what, sizeof(shared->what), "%s: %ld", what, number);
}

static long ms_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- what the process does ---- */

/* Keeps its numbers in vector registers. */
static void do_compute(void)
{
	static _Atomic double expected;
	double x[8] = { 1, 2, 3, 4, 5, 6, 7, 8 }, sum = 0;

	for (int k = 0; k < 10000; k++)
		for (int i = 0; i < 8; i++)
			x[i] = x[i] * 1.0000001 + 1e-9;
	for (int i = 0; i < 8; i++)
		sum += x[i];
	if (!expected)
		expected = sum;
	if (sum != expected)
		wrong("sum", (long)sum);
}

static void do_poll(void)
{
	if (poll(NULL, 0, MS) != 0)
		wrong("poll", errno);
}

static void wait_in_epoll(int ms)
{
	static int fd = -1;
	struct epoll_event event;

	if (fd < 0)
		fd = epoll_create1(0);
	if (epoll_wait(fd, &event, 1, ms) != 0)
		wrong("epoll_wait", errno);
}

static void do_epoll(void)
{
	wait_in_epoll(MS);
}

/* Is more often outside of the call than inside. */
static void do_epoll_seldom(void)
{
	const long before = ms_now();

	while (ms_now() - before < MS / 3)
		do_compute();
	wait_in_epoll(MS / 6);
}

static void do_sleep(void)
{
	const struct timespec time = { .tv_nsec = MS * 1000000 };
	const long before = ms_now();

	if (nanosleep(&time, NULL) != 0 || ms_now() - before < MS)
		wrong("nanosleep", ms_now() - before);
}

static void do_futex(void)
{
	const struct timespec time = { .tv_nsec = MS * 1000000 };
	static int word;

	if (syscall(SYS_futex, &word, FUTEX_WAIT, 0, &time, NULL, 0) != -1 || errno != ETIMEDOUT)
		wrong("futex", errno);
	errno = ERRNO_OF_TEST;
}

static void do_sigtimedwait(void)
{
	const struct timespec time = { .tv_nsec = MS * 1000000 };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	if (sigtimedwait(&set, NULL, &time) != -1 || errno != EAGAIN)
		wrong("sigtimedwait", errno);
	errno = ERRNO_OF_TEST;
}

static void do_allocate(void)
{
	void *block[50];

	do_compute();
	for (int i = 0; i < 50; i++)
		block[i] = malloc((size_t)(i * 701 % 20000 + 1));
	for (int i = 0; i < 50; i++)
		free(block[i]);
	errno = ERRNO_OF_TEST;
}

static void (*what_to_do[2])(void);

static void *work(void *argument)
{
	void (*const action)(void) = *(void (**)(void))argument;

	while (!shared->stop) {
		errno = ERRNO_OF_TEST;
		action();
		if (errno != ERRNO_OF_TEST)
			wrong("errno", errno);
	}
	return NULL;
}

static void on_signal(int number)
{
	(void)number;
	shared->handled++;
}

static void child_main(void)
{
	pthread_t other;

	prctl(PR_SET_PDEATHSIG, SIGKILL); /* if the test fails */
	signal(SIGSEGV, SIG_DFL); /* cmocka's handler */
	sigaction(SIGUSR1, &(struct sigaction){ .sa_handler = on_signal, .sa_flags = SA_RESTART },
		  NULL);
	if (what_to_do[1])
		pthread_create(&other, NULL, work, &what_to_do[1]);
	shared->ready = 1;
	work(&what_to_do[0]);
	if (what_to_do[1])
		pthread_join(other, NULL);
	_exit(0);
}

/* ---- the tests ---- */

static pid_t start(void (*one)(void), void (*other)(void))
{
	pid_t child;

	memset(shared, 0, sizeof(*shared));
	what_to_do[0] = one;
	what_to_do[1] = other;
	child = fork();
	if (child == 0)
		child_main();
	while (!shared->ready)
		poll(NULL, 0, 1);
	return child;
}

static void finish(pid_t child)
{
	int status;

	shared->stop = 1;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	if (shared->wrong)
		fail_msg("%d times, first %s", shared->wrong, shared->what);
}

static bool is_permitted(pid_t child)
{
	char byte;

	return remote_read(child, (uint64_t)(uintptr_t)&shared, &byte, 1);
}

/* Attaches some times; NEED of them must succeed. */
static void attach_often(void (*one)(void), void (*other)(void), int need)
{
	pid_t child = start(one, other);
	struct injection injection = { child, getenv("INJECTED"), "gpuleak_attach", "", 0 };
	struct injected got;
	char text[16];
	int done = 0;

	for (int i = 0; i < ROUNDS && is_permitted(child) && done < need; i++) {
		snprintf(text, sizeof(text), "%d", i);
		injection.text = text;
		if (inject(&injection, &got)) {
			assert_int_equal(got.result, i + 1);
			done++;
		} else if (!strstr(got.error, "try again")) {
			fail_msg("attaching %d: %s", i, got.error);
		}
	}
	if (!is_permitted(child)) {
		finish(child);
		skip();
	}
	finish(child);
	assert_true(done >= need);
}

#define WAITS(action)                                           \
	static void test_##action(void **state)                 \
	{                                                       \
		(void)state;                                    \
		attach_often(do_##action, NULL, ROUNDS);        \
	}
WAITS(poll)
WAITS(epoll)
WAITS(sleep)
WAITS(futex)
WAITS(sigtimedwait)
WAITS(compute)

/* A thread that always allocates must not be borrowed while it holds a lock. */
static void test_allocate(void **state)
{
	(void)state;
	attach_often(do_allocate, do_allocate, 5);
}

/* On a busy machine a thread may not stop in time. The next try must find it untraced. */
static void test_busy(void **state)
{
	pid_t child = start(do_compute, NULL);
	const struct injection injection = { child, getenv("INJECTED"), "gpuleak_attach", "1", 0 };
	struct injected got;

	(void)state;
	if (is_permitted(child)) {
		shared->busy = 2;
		assert_true(inject(&injection, &got));
		assert_int_equal(shared->busy, 0);
		shared->busy = 1000000;
		assert_false(inject(&injection, &got));
		assert_non_null(strstr(got.error, "try again"));
		shared->busy = 0;
		assert_true(inject(&injection, &got));
	}
	finish(child);
}

/* Each signal that is sent meanwhile is handled. */
static void test_signals(void **state)
{
	pid_t child = start(do_sleep, do_compute);
	const struct injection injection = { child, getenv("INJECTED"), "gpuleak_attach", "1", 0 };
	struct injected got;
	int sent = 0;

	(void)state;
	for (int i = 0; i < ROUNDS && is_permitted(child); i++) {
		assert_int_equal(kill(child, SIGUSR1), 0);
		sent++;
		assert_true(inject(&injection, &got));
		for (int ms = 0; ms < 5000 && shared->handled < sent; ms++)
			poll(NULL, 0, 1);
		assert_int_equal(shared->handled, sent);
	}
	shared->wrong = 0; /* a signal ends a sleep */
	finish(child);
}

static bool is_in_call(pid_t tid)
{
	char path[64];
	int first;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/syscall", (int)tid);
	file = fopen(path, "r");
	first = file ? fgetc(file) : EOF;
	if (file)
		fclose(file);
	return first >= '0' && first <= '9';
}

/* Replaces libc's function. Kills the process that traces before its call number `kill_before`. Of
 * the many calls that write a word, it counts only a few. Leaves out what stops a thread that is
 * too busy. If `stops_in_call`, a thread is stopped only while it is in a system call. */
static int kill_before = -1;
static bool stops_in_call;

long ptrace(enum __ptrace_request request, ...)
{
	va_list list;
	pid_t tid;
	void *address, *data;

	va_start(list, request);
	tid = va_arg(list, pid_t);
	address = va_arg(list, void *);
	data = va_arg(list, void *);
	va_end(list);
	if ((request != PTRACE_POKEDATA || (uintptr_t)address % 256 == 0) && kill_before-- == 0)
		raise(SIGKILL);
	if (request == PTRACE_INTERRUPT && shared->busy > 0 && shared->busy--)
		return 0;
	if (request == PTRACE_INTERRUPT && stops_in_call)
		for (int i = 0; i < 1000 && !is_in_call(tid); i++)
			usleep(100);
	return syscall(SYS_ptrace, (long)request, (long)tid, address, data);
}

/* Kills the process that traces at one point after the other. The traced process must go on as if
 * nothing had happened. */
static void kill_often(void (*one)(void), void (*other)(void))
{
	pid_t child = start(one, other);
	struct injection injection = { child, getenv("INJECTED"), "gpuleak_attach", "1", 0 };
	struct injected got;
	int done = 0, kills = 0;

	while (done < 3 && is_permitted(child)) {
		kill_before = kills;
		if (inject(&injection, &got))
			done++;
		else if (strstr(got.error, "should attach ended"))
			kills++;
		usleep(kills % 16 ? 1000 : 2000 * MS);
		if (waitpid(child, NULL, WNOHANG) != 0)
			fail_msg("dead after %d calls", kills);
	}
	kill_before = -1;
	finish(child);
}

/* The thread enters the call after its state was read, and before it stops. */
static void test_epoll_entered(void **state)
{
	(void)state;
	stops_in_call = true;
	attach_often(do_epoll_seldom, NULL, ROUNDS / 2);
	stops_in_call = false;
}

static void test_killed_waiting(void **state)
{
	(void)state;
	kill_often(do_sleep, do_compute);
}

static void test_killed_computing(void **state)
{
	(void)state;
	kill_often(do_compute, do_allocate);
}

static void test_errors(void **state)
{
	pid_t child = start(do_poll, NULL);
	struct injection injection = { child, "/nothing/libgpuleak.so", "gpuleak_attach", "1", 0 };
	struct injected got;

	(void)state;
	if (!is_permitted(child)) {
		finish(child);
		skip();
	}
	assert_false(inject(&injection, &got));
	assert_non_null(strstr(got.error, "cannot load the library: /nothing/libgpuleak.so"));
	injection.library = getenv("INJECTED");
	injection.function = "gpuleak_nothing";
	assert_false(inject(&injection, &got));
	assert_non_null(strstr(got.error, "undefined symbol: gpuleak_nothing"));
	injection.function = "gpuleak_detach"; /* takes 2 seconds */
	injection.wait_ms = 500;
	assert_false(inject(&injection, &got));
	assert_true(got.is_late);
	finish(child);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_poll),	cmocka_unit_test(test_epoll),
		cmocka_unit_test(test_epoll_entered),
		cmocka_unit_test(test_sleep),	cmocka_unit_test(test_futex),
		cmocka_unit_test(test_sigtimedwait), cmocka_unit_test(test_compute),
		cmocka_unit_test(test_allocate), cmocka_unit_test(test_busy),
		cmocka_unit_test(test_signals),
		cmocka_unit_test(test_errors), cmocka_unit_test(test_killed_waiting),
		cmocka_unit_test(test_killed_computing),
	};

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
