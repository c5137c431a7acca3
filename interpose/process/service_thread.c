/* SPDX-License-Identifier: MIT
 *
 * Waits for signal requests and for the time of the next step, and handles them. Owns the thread,
 * and gpuleak's handlers of signals: a user requests a report, a step or a trim with them. A
 * handler only records the request and wakes the thread. If the application handles or ignores the
 * signal already, gpuleak installs no handler. If the application installs one later, it replaces
 * gpuleak's. The thread must not take the application's signals or keep its process alive.
 */
#include "interpose/process/service_thread.h"

#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "interpose/base/config.h"
#include "interpose/base/message.h"
#include "interpose/block/pool_counters.h"
#include "interpose/block/steps.h"
#include "interpose/dispatch/api.h"
#include "interpose/process/reporter.h"
#include "ledger/error_text.h"
#include "ledger/process_stat.h"

#define MS 1000000ull
#define CHECK_NS (250 * MS)       /* time between two checks by is_last_thread() */
#define TRIM_DELAY_NS (1000 * MS) /* how long to wait for a GPU call that trims the pool */

/* ---- signals ---- */

/* Requests that the service thread has not handled yet. The signal handler that adds one wakes the
 * service thread. */
static _Atomic uint32_t requested;
/* The number of signals that requested a step. If two arrive before the first is handled, both mark
 * a step. */
static _Atomic uint32_t steps_requested;

enum signal_request {
	REQUEST_TRIM = 1,   /* GPULEAK_POOL_SIGNAL */
	REQUEST_REPORT = 2, /* GPULEAK_REPORT_SIGNAL */
	REQUEST_STEP = 4,   /* GPULEAK_STEP_SIGNAL */
};

/* The options that name a signal, and the request that the signal makes. Several options may name
 * the same signal. */
static struct {
	enum option_id option;
	const long long *wanted; /* the option's value: the number of a signal, or 0 */
	enum signal_request request;
	const char *without; /* what does not happen if the signal can't be used */
	int number;          /* the signal that is caught; 0: none */
} signal_options[] = {
	{ OPTION_POOL_SIGNAL, &config.pool_signal, REQUEST_TRIM,
	  ": the pool returns no memory at this signal" },
	{ OPTION_REPORT_SIGNAL, &config.report_signal, REQUEST_REPORT,
	  ": no report is written at this signal" },
	{ OPTION_STEP_SIGNAL, &config.step_signal, REQUEST_STEP,
	  ": no step is marked at this signal" },
};
#define SIGNAL_OPTIONS (sizeof(signal_options) / sizeof(signal_options[0]))

void service_thread_wake(void)
{
	syscall(SYS_futex, &requested, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void note_request(int number)
{
	KEEP_ERRNO;
	uint32_t requests = 0;

	for (size_t i = 0; i < SIGNAL_OPTIONS; i++)
		if (signal_options[i].number == number)
			requests |= signal_options[i].request;
	if (requests & REQUEST_TRIM)
		atomic_store_explicit(&pool_wants_trim, true, memory_order_relaxed);
	if (requests & REQUEST_STEP)
		atomic_fetch_add(&steps_requested, 1);
	atomic_fetch_or(&requested, requests);
	service_thread_wake();
}

/* The process's own mistakes raise these: after a return from the handler the mistake is
 * repeated. */
static bool is_fault(int number)
{
	return number == SIGSEGV || number == SIGBUS || number == SIGFPE || number == SIGILL ||
	       number == SIGTRAP || number == SIGSYS || number == SIGABRT;
}

static void say_not(size_t i, int number, const char *why)
{
	char digits[TEXT_NUMBER];

	say("gpuleak: GPULEAK_", option_rows[signal_options[i].option].name, ": signal ",
	    text_number((uint64_t)number, digits), " ", why, signal_options[i].without, "\n", NULL);
}

static bool is_free(int number)
{
	struct sigaction action;

	return sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_DFL;
}

/* Reports that the application handles or ignores signal NUMBER, and names one that is free. */
static void say_taken(size_t i, int number)
{
	const char *option = option_rows[signal_options[i].option].name;
	const char *other = is_free(SIGUSR1) ? "USR1" : is_free(SIGUSR2) ? "USR2" : "RTMIN+";
	char digits[TEXT_NUMBER], offset[TEXT_NUMBER];
	int real_time = SIGRTMIN;

	while (real_time < SIGRTMAX && !is_free(real_time))
		real_time++;
	say("gpuleak: GPULEAK_", option, ": signal ", text_number((uint64_t)number, digits),
	    " is not caught, because the application handles or ignores it",
	    signal_options[i].without, "; ", other,
	    *other == 'R' ? text_number((uint64_t)(real_time - SIGRTMIN), offset) : "",
	    " is free\n", NULL);
}

static void catch(size_t i, int number)
{
	/* SA_ONSTACK: threads of Go programs have small stacks. */
	struct sigaction ours = { .sa_handler = note_request, .sa_flags = SA_RESTART | SA_ONSTACK };
	struct sigaction before;

	if (signal_options[i].request == REQUEST_TRIM && config.pool == OPTION_POOL_OFF) {
		say_not(i, number, "is not caught, because GPULEAK_POOL is off");
		return;
	}
	if (is_fault(number) || sigaction(number, NULL, &before) < 0) {
		say_not(i, number, "cannot be caught");
		return;
	}
	/* The handler may be gpuleak's already: another option names the same signal, or the parent
	 * set it before a fork. */
	if (before.sa_handler != note_request && before.sa_handler != SIG_DFL) {
		say_taken(i, number);
		return;
	}
	signal_options[i].number = number;
	if (before.sa_handler != note_request && sigaction(number, &ours, NULL) < 0) {
		signal_options[i].number = 0;
		say_not(i, number, "cannot be caught");
	}
}

static void catch_signals(void)
{
	for (size_t i = 0; i < SIGNAL_OPTIONS; i++)
		if (*signal_options[i].wanted)
			catch(i, (int)*signal_options[i].wanted);
}

/* Returns the requests (enum signal_request) whose signals gpuleak catches. */
static uint32_t signals_caught(void)
{
	uint32_t ret = 0;

	for (size_t i = 0; i < SIGNAL_OPTIONS; i++)
		ret |= signal_options[i].number ? signal_options[i].request : 0;
	return ret;
}

/* ---- the thread ---- */

_Atomic(void (*)(void)) service_thread_tick;

struct service {
	struct recorder *recorder;
	uint64_t every_ns;  /* 0: no timed steps */
	uint64_t step_ns;   /* when the next one is due */
	uint64_t trim_ns;   /* when to trim the pool; 0: no request */
	/* how many of the steps_requested, the steps that signals requested, are marked already */
	uint32_t steps_done;
};

/* Returns true if the service thread is the last thread that runs: the process's first thread has
 * ended, and /proc counts only these two. Then the service thread must end, since libc ends a
 * process with its last thread. */
static bool is_last_thread(void)
{
	struct process_stat stat;

	return process_stat_read(0, &stat) == 0 && stat.state == 'Z' && stat.threads <= 2;
}

static void wait_for_request(uint64_t due_ns)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	struct timespec left;

	if (due_ns <= now)
		return;
	left.tv_sec = (time_t)((due_ns - now) / 1000000000u);
	left.tv_nsec = (long)((due_ns - now) % 1000000000u);
	syscall(SYS_futex, &requested, FUTEX_WAIT_PRIVATE, 0, &left, NULL, 0);
}

static uint64_t next_due_ns(const struct service *service)
{
	uint64_t due = clock_ns(CLOCK_MONOTONIC) + CHECK_NS;

	if (service->every_ns && service->step_ns < due)
		due = service->step_ns;
	if (service->trim_ns && service->trim_ns < due)
		due = service->trim_ns;
	return due;
}

static void mark_due_steps(struct service *service)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);

	for (; service->steps_done != atomic_load(&steps_requested); service->steps_done++)
		steps_mark(service->recorder, NULL);
	if (!service->every_ns || now < service->step_ns)
		return;
	steps_mark(service->recorder, NULL);
	/* Do not mark missed steps later: nothing would grow between them. */
	while (service->step_ns <= now)
		service->step_ns += service->every_ns;
}

static void trim_if_due(struct service *service)
{
	if (!service->trim_ns || clock_ns(CLOCK_MONOTONIC) < service->trim_ns)
		return;
	service->trim_ns = 0;
	if (pool_trim_due()) /* no GPU call has trimmed the pool meanwhile */
		apis_give_back();
}

static void *run_service(void *data)
{
	struct service service = { .recorder = data,
				   .every_ns = (uint64_t)config.step_every * MS };

	prctl(PR_SET_NAME, "gpuleak");
	service.step_ns = clock_ns(CLOCK_MONOTONIC) + service.every_ns;
	while (!is_last_thread()) {
		void (*tick)(void) = atomic_load(&service_thread_tick);
		uint32_t requests;

		wait_for_request(next_due_ns(&service));
		if (tick && recorder_ending(service.recorder) == ENDING_NOT)
			tick();
		if (recorder_ending(service.recorder) != ENDING_NOT)
			break;
		requests = atomic_exchange(&requested, 0);
		if ((requests & REQUEST_TRIM) && !service.trim_ns)
			service.trim_ns = clock_ns(CLOCK_MONOTONIC) + TRIM_DELAY_NS;
		mark_due_steps(&service);
		trim_if_due(&service);
		if (requests & REQUEST_REPORT)
			reporter_now(service.recorder);
	}
	return NULL;
}

static void warn_no_destination(void)
{
	const char *destination = config.report_now[0] ? config.report_now : config.report;

	if ((signals_caught() & REQUEST_REPORT) && strcmp(destination, "none") == 0)
		say("gpuleak: GPULEAK_REPORT_SIGNAL: GPULEAK_REPORT is none, so no report is "
		    "written at the signal; set GPULEAK_REPORT_NOW to a path\n",
		    NULL);
}

void service_thread_start(struct recorder *recorder)
{
	sigset_t all, before;
	pthread_attr_t attributes;
	pthread_t thread;
	int r;

	catch_signals();
	if (!signals_caught() && !config.step_every && !atomic_load(&service_thread_tick))
		return;
	warn_no_destination();
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before); /* the new thread inherits this mask */
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	r = pthread_create(&thread, &attributes, run_service, recorder);
	pthread_attr_destroy(&attributes);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (r != 0)
		say("gpuleak: cannot start the thread for GPULEAK_STEP_EVERY and signals: ",
		    error_text(r),
		    "; no step is marked and no report is made\n", NULL);
}
