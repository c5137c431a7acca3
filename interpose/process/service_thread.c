/* SPDX-License-Identifier: MIT
 *
 * Waits for signal requests and for the time of the next step, and handles them. Owns the
 * thread. Must not take the application's signals or keep its process alive.
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
#include "interpose/dispatch/api.h"
#include "interpose/block/pool_counters.h"
#include "interpose/base/message.h"
#include "interpose/process/signals.h"
#include "interpose/block/steps.h"
#include "interpose/process/reporter.h"
#include "ledger/clock.h"
#include "ledger/error_text.h"
#include "ledger/process_stat.h"

#define MS 1000000ull
#define CHECK_NS (250 * MS)       /* time between two checks by is_last_thread() */
#define TRIM_DELAY_NS (1000 * MS) /* how long to wait for a GPU call that trims the pool */

struct service {
	struct recorder *recorder;
	uint64_t every_ns;  /* 0: no timed steps */
	uint64_t step_ns;   /* when the next one is due */
	uint64_t trim_ns;   /* when to trim the pool; 0: no request */
	/* how many of the signals_steps, the steps that signals requested, are marked already */
	uint32_t steps_done;
};

static uint64_t now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

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
	uint64_t now = now_ns();
	struct timespec left;

	if (due_ns <= now)
		return;
	left.tv_sec = (time_t)((due_ns - now) / 1000000000u);
	left.tv_nsec = (long)((due_ns - now) % 1000000000u);
	syscall(SYS_futex, &signals_requests, FUTEX_WAIT_PRIVATE, 0, &left, NULL, 0);
}

static uint64_t next_due_ns(const struct service *service)
{
	uint64_t due = now_ns() + CHECK_NS;

	if (service->every_ns && service->step_ns < due)
		due = service->step_ns;
	if (service->trim_ns && service->trim_ns < due)
		due = service->trim_ns;
	return due;
}

static void mark_due_steps(struct service *service)
{
	uint64_t now = now_ns();

	for (; service->steps_done != atomic_load(&signals_steps); service->steps_done++)
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
	if (!service->trim_ns || now_ns() < service->trim_ns)
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
	service.step_ns = now_ns() + service.every_ns;
	while (!is_last_thread()) {
		uint32_t requests;

		wait_for_request(next_due_ns(&service));
		if (recorder_ending(service.recorder) != ENDING_NOT)
			break;
		requests = atomic_exchange(&signals_requests, 0);
		if ((requests & REQUEST_TRIM) && !service.trim_ns)
			service.trim_ns = now_ns() + TRIM_DELAY_NS;
		mark_due_steps(&service);
		trim_if_due(&service);
		if (requests & REQUEST_REPORT)
			reporter_now(service.recorder);
	}
	return NULL;
}

void service_thread_stop(void)
{
	syscall(SYS_futex, &signals_requests, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
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

	if (!signals_caught() && !config.step_every)
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
