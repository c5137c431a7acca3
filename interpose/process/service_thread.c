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
#include "interpose/cuda/pool/pool_signal.h"
#include "interpose/base/message.h"
#include "interpose/process/signals.h"
#include "interpose/block/steps.h"
#include "interpose/process/reporter.h"
#include "ledger/clock.h"
#include "ledger/process_stat.h"

#define MS 1000000ull
#define LOOK_NS (250 * MS)  /* how often to check whether the process still has another thread */
#define GRACE_NS (1000 * MS) /* how long to wait for a GPU call that trims the pool */

struct helper {
	struct recorder *recorder;
	uint64_t every_ns;  /* 0: no timed steps */
	uint64_t step_ns;   /* when the next one is due */
	uint64_t trim_ns;   /* when to trim the pool; 0: no request */
	uint32_t steps_done; /* of signals_steps */
};

static uint64_t now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

/* Returns true if only this thread runs: the first thread has ended, and it and this one are all
 * that is left. libc ends the process with its last thread, so this must not be that. */
static bool is_alone(void)
{
	struct process_stat stat;

	return process_stat_read(0, &stat) == 0 && stat.state == 'Z' && stat.threads <= 2;
}

static void wait_until(uint64_t due_ns)
{
	uint64_t now = now_ns();
	struct timespec left;

	if (due_ns <= now)
		return;
	left.tv_sec = (time_t)((due_ns - now) / 1000000000u);
	left.tv_nsec = (long)((due_ns - now) % 1000000000u);
	syscall(SYS_futex, &signals_wishes, FUTEX_WAIT_PRIVATE, 0, &left, NULL, 0);
}

static uint64_t next_look(const struct helper *helper)
{
	uint64_t due = now_ns() + LOOK_NS;

	if (helper->every_ns && helper->step_ns < due)
		due = helper->step_ns;
	if (helper->trim_ns && helper->trim_ns < due)
		due = helper->trim_ns;
	return due;
}

static void mark_what_is_due(struct helper *helper)
{
	uint64_t now = now_ns();

	for (; helper->steps_done != atomic_load(&signals_steps); helper->steps_done++)
		steps_mark(helper->recorder, NULL);
	if (!helper->every_ns || now < helper->step_ns)
		return;
	steps_mark(helper->recorder, NULL);
	/* Steps that were missed are not repeated: in steps of no length nothing would grow. */
	while (helper->step_ns <= now)
		helper->step_ns += helper->every_ns;
}

static void give_back_what_is_due(struct helper *helper)
{
	if (!helper->trim_ns || now_ns() < helper->trim_ns)
		return;
	helper->trim_ns = 0;
	if (pool_trim_due()) /* no GPU call has trimmed the pool meanwhile */
		apis_give_back();
}

static void *help(void *data)
{
	struct helper helper = { .recorder = data,
				 .every_ns = (uint64_t)config.step_every * MS };

	prctl(PR_SET_NAME, "gpuleak");
	helper.step_ns = now_ns() + helper.every_ns;
	while (!is_alone()) {
		uint32_t wishes;

		wait_until(next_look(&helper));
		wishes = atomic_exchange(&signals_wishes, 0);
		if ((wishes & WISH_TRIM) && !helper.trim_ns)
			helper.trim_ns = now_ns() + GRACE_NS;
		mark_what_is_due(&helper);
		give_back_what_is_due(&helper);
		if (wishes & WISH_REPORT)
			verdict_report_now(helper.recorder);
	}
	return NULL;
}

static void say_no_place(void)
{
	const char *place = config.report_now[0] ? config.report_now : config.report;

	if ((signals_caught() & WISH_REPORT) && strcmp(place, "none") == 0)
		say("gpuleak: GPULEAK_REPORT_SIGNAL: GPULEAK_REPORT is none, so a report at the "
		    "signal has no place to go to; set GPULEAK_REPORT_NOW\n", NULL);
}

void helper_start(struct recorder *recorder)
{
	sigset_t all, before;
	pthread_attr_t attributes;
	pthread_t thread;
	int r;

	if (!signals_caught() && !config.step_every)
		return;
	say_no_place();
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before); /* the thread's, too */
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	r = pthread_create(&thread, &attributes, help, recorder);
	pthread_attr_destroy(&attributes);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (r != 0)
		say("gpuleak: no thread for GPULEAK_STEP_EVERY and the signals of options: ",
		    strerrordesc_np(r) ? strerrordesc_np(r) : "?",
		    "; nothing is reported or marked at them\n", NULL);
}
