/* SPDX-License-Identifier: MIT
 *
 * Calls a function again and again in a process that waits in each of the calls of the kernel in
 * which threads wait, or computes, or allocates: it must not notice.
 * Links: test_inject.c, tools/attach/{inject,remote,stub,tracee}.c, tools/launch/process.c, cmocka.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
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
	volatile int rounds[2]; /* of each thread */
	volatile int faults;    /* that were made */
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
	const int thread = (void (**)(void))argument == &what_to_do[1];
	void (*const action)(void) = what_to_do[thread];

	for (; !shared->stop; shared->rounds[thread]++) {
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
	attach_often(do_allocate, do_allocate, 2);
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

/* ---- faults: replaces libc's functions in the process that traces ---- */

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

enum fault {
	NO_FAULT,
	KILLED,    /* before a call of ptrace() */
	FAILS,     /* the call of ptrace() */
	FORGOTTEN, /* the same, if it lets the thread run or stop: as if it got no time */
	STOPPED,   /* the traced process, before the call */
	LATE,      /* a stop is seen only after `late_naps` naps */
};
static enum fault fault; /* of the next inject() */
static int fault_at;     /* number of the call or of the stop */
static int late_naps;
static bool is_tracer;
static bool is_waiting; /* for a stop that is forgotten or late: time passes faster */
static long long skipped_ns;
static pid_t traced;
static bool stops_in_call; /* a thread is stopped only while it is in a system call */

#define NAP_NS 20000000

int clock_gettime(clockid_t clock, struct timespec *ret)
{
	const int r = (int)syscall(SYS_clock_gettime, (long)clock, ret);
	const long long ns = ret->tv_nsec + skipped_ns;

	ret->tv_sec += ns / 1000000000;
	ret->tv_nsec = ns % 1000000000;
	return r;
}

int nanosleep(const struct timespec *time, struct timespec *left)
{
	const long no_time[2] = { 0, 1000 };

	if (!is_waiting)
		return (int)syscall(SYS_nanosleep, time, left);
	skipped_ns += NAP_NS;
	return (int)syscall(SYS_nanosleep, no_time, NULL);
}

pid_t waitpid(pid_t pid, int *status, int options)
{
	siginfo_t found = { .si_pid = 0 };
	pid_t r;

	if (is_tracer && fault == LATE &&
	    waitid(P_ALL, 0, &found, WEXITED | WSTOPPED | WNOHANG | WNOWAIT | __WALL) == 0 &&
	    found.si_pid && (fault_at < 0 || fault_at-- == 0) && late_naps > 0) {
		late_naps--;
		shared->faults++;
		is_waiting = true;
		return 0;
	}
	r = (pid_t)syscall(SYS_wait4, (long)pid, status, (long)options, NULL);
	is_waiting &= r == 0 && fault != LATE;
	return r;
}

static bool lets_run(enum __ptrace_request request)
{
	return request == PTRACE_INTERRUPT || request == PTRACE_CONT || request == PTRACE_SYSCALL;
}

/* Returns the result of the call if it is left out, or 1. */
static long apply_fault(enum __ptrace_request request)
{
	shared->faults++;
	if (fault == KILLED)
		raise(SIGKILL);
	if (fault == STOPPED)
		kill(traced, SIGSTOP);
	is_waiting = fault == FORGOTTEN && lets_run(request);
	if (is_waiting)
		return 0;
	errno = ESRCH;
	return fault == FAILS && request != PTRACE_DETACH ? -1 : 1;
}

/* Of the many calls that write a word, it counts only a few. */
long ptrace(enum __ptrace_request request, ...)
{
	va_list list;
	pid_t tid;
	void *address, *data;
	long r = 1;

	va_start(list, request);
	tid = va_arg(list, pid_t);
	address = va_arg(list, void *);
	data = va_arg(list, void *);
	va_end(list);
	is_tracer = true;
	if (fault != LATE && (request != PTRACE_POKEDATA || (uintptr_t)address % 256 == 0) &&
	    fault_at-- == 0)
		r = apply_fault(request);
	if (request == PTRACE_INTERRUPT && stops_in_call)
		for (int i = 0; i < 1000 && !is_in_call(tid); i++)
			usleep(100);
	return r <= 0 ? r : syscall(SYS_ptrace, (long)request, (long)tid, address, data);
}

/* Calls inject() with a fault. Returns true if it succeeded. */
static bool inject_with(enum fault what, int at, int naps, struct injected *ret)
{
	const struct injection injection = { traced, getenv("INJECTED"), "gpuleak_attach", "1", 0 };
	bool done;

	shared->faults = 0;
	fault = what;
	fault_at = at;
	late_naps = naps;
	done = inject(&injection, ret);
	fault = NO_FAULT;
	if (done)
		assert_int_equal(ret->result, 2);
	return done;
}

/* Returns the number KEY in the status of thread TASK. */
static long status_of(const char *task, const char *key)
{
	char path[300], line[200];
	long value = 0;

	snprintf(path, sizeof(path), "/proc/%d/task/%s/status", (int)traced, task);
	FILE *file = fopen(path, "r");
	while (file && fgets(line, sizeof(line), file))
		if (strncmp(line, key, strlen(key)) == 0)
			value = atol(line + strlen(key) + 1);
	if (file)
		fclose(file);
	return value;
}

/* No thread of the process is traced or stopped, and its own threads go on. */
static void check_goes_on(enum fault what, int at)
{
	const int before[2] = { shared->rounds[0], shared->rounds[1] };
	char path[64];
	struct dirent *entry;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)traced);
	dir = opendir(path);
	while (dir && (entry = readdir(dir)) != NULL)
		if (status_of(entry->d_name, "TracerPid") != 0)
			fail_msg("fault %d at %d: still traced", what, at);
	if (dir)
		closedir(dir);
	for (int ms = 0; ms < 20000; ms++) {
		if (shared->rounds[0] > before[0] &&
		    (!what_to_do[1] || shared->rounds[1] > before[1]))
			return;
		poll(NULL, 0, 1);
	}
	fail_msg("fault %d at %d: a thread does not go on", what, at);
}

/* Attaches again and again: with the fault WHAT at the first call of ptrace, at the second one, and
 * so on, until an attempt makes fewer calls. The process must go on as if nothing had happened.
 * WORDS: what an error's text must contain; "": any error is right; NULL: an error is wrong. */
static void try_faults(enum fault what, int naps, void (*one)(void), void (*other)(void),
		       const char *words)
{
	struct injected got;
	int at = 0;

	traced = start(one, other);
	for (bool more = is_permitted(traced); more; at++) {
		if (!inject_with(what, at, naps, &got) && (!words || !strstr(got.error, words)))
			fail_msg("fault %d at %d: %s", what, at, got.error);
		more = shared->faults;
		check_goes_on(what, at);
	}
	finish(traced);
	if (!at)
		skip();
	assert_true(at > 10);
}

/* The thread enters the call after its state was read, and before it stops. */
static void test_epoll_entered(void **state)
{
	struct injected got;

	(void)state;
	traced = start(do_epoll_seldom, NULL);
	stops_in_call = true;
	for (int i = 0; i < ROUNDS / 2 && is_permitted(traced); i++)
		if (!inject_with(NO_FAULT, 0, 0, &got) && !strstr(got.error, "try again"))
			fail_msg("attaching: %s", got.error);
	stops_in_call = false;
	finish(traced);
}

static void test_killed_waiting(void **state)
{
	(void)state;
	try_faults(KILLED, 0, do_sleep, do_compute, "should attach ended");
}

static void test_killed_computing(void **state)
{
	(void)state;
	try_faults(KILLED, 0, do_compute, do_allocate, "should attach ended");
}

static void test_failing(void **state)
{
	(void)state;
	try_faults(FAILS, 0, do_sleep, do_compute, "");
	try_faults(FAILS, 0, do_compute, NULL, "");
}

static void test_forgotten(void **state)
{
	(void)state;
	try_faults(FORGOTTEN, 0, do_sleep, do_compute, "");
	try_faults(FORGOTTEN, 0, do_compute, NULL, "");
}

/* A stop that is late for a moment is no error, and a call may be given up. */
static void test_late(void **state)
{
	(void)state;
	try_faults(LATE, 15, do_compute, do_sleep, NULL);
	try_faults(LATE, 15, do_sleep, NULL, NULL);
	try_faults(LATE, 400, do_compute, do_sleep, "has taken 5 seconds");
	try_faults(LATE, 100000, do_sleep, NULL, "");
}

/* Continues the process whenever it is stopped. */
static void *continue_always(void *count)
{
	int status;

	while (!shared->stop) {
		if (waitpid(traced, &status, WUNTRACED | WNOHANG) == traced && WIFSTOPPED(status)) {
			++*(volatile int *)count;
			kill(traced, SIGCONT);
		}
		poll(NULL, 0, 1);
	}
	return NULL;
}

/* A signal that stops the process is not lost, whenever it comes. */
static void test_stopped(void **state)
{
	struct injected got;
	pthread_t thread;
	int stops = 0, sent = 0, at = 0;

	(void)state;
	traced = start(do_compute, do_sleep);
	pthread_create(&thread, NULL, continue_always, &stops);
	for (bool more = is_permitted(traced); more; at++) {
		if (!inject_with(STOPPED, at, 0, &got) && !strstr(got.error, "kill -CONT"))
			fail_msg("stopped at %d: %s", at, got.error);
		sent += shared->faults;
		more = shared->faults;
		for (int ms = 0; ms < 20000 && *(volatile int *)&stops < sent; ms++)
			poll(NULL, 0, 1);
		assert_int_equal(*(volatile int *)&stops, sent);
		check_goes_on(STOPPED, at);
	}
	shared->stop = 1;
	pthread_join(thread, NULL);
	shared->stop = 0;
	shared->wrong = 0; /* a signal ends a sleep */
	finish(traced);
	assert_true(at > 10 || at == 0);
}

/* Returns the bytes that process TRACED has mapped. */
static unsigned long mapped(void)
{
	char task[16];

	snprintf(task, sizeof(task), "%d", (int)traced);
	return (unsigned long)status_of(task, "VmSize") << 10;
}

/* A process that has no memory for a thread's stack is left as it was. */
static void test_no_thread(void **state)
{
	struct injected got;
	struct rlimit limit;
	unsigned long before;

	(void)state;
	traced = start(do_compute, NULL);
	if (is_permitted(traced)) {
		before = mapped();
		limit = (struct rlimit){ before + (2 << 20), before + (2 << 20) };
		assert_int_equal(prlimit(traced, RLIMIT_AS, &limit, NULL), 0);
		assert_false(inject_with(NO_FAULT, 0, 0, &got));
		assert_non_null(strstr(got.error, "Resource temporarily unavailable"));
		assert_int_equal(mapped(), before);
		check_goes_on(NO_FAULT, 0);
	}
	finish(traced);
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
		cmocka_unit_test(test_no_thread), /* before this process makes threads */
		cmocka_unit_test(test_poll),	cmocka_unit_test(test_epoll),
		cmocka_unit_test(test_epoll_entered),
		cmocka_unit_test(test_sleep),	cmocka_unit_test(test_futex),
		cmocka_unit_test(test_sigtimedwait), cmocka_unit_test(test_compute),
		cmocka_unit_test(test_allocate), cmocka_unit_test(test_signals),
		cmocka_unit_test(test_errors), cmocka_unit_test(test_killed_waiting),
		cmocka_unit_test(test_killed_computing), cmocka_unit_test(test_failing),
		cmocka_unit_test(test_forgotten), cmocka_unit_test(test_late),
		cmocka_unit_test(test_stopped),
	};

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
