/* SPDX-License-Identifier: MIT
 *
 * Owns gpuleak's handlers of the signals by which a user requests a report or begins a step. A
 * handler only records the request and wakes the service thread. If the application handles or
 * ignores the signal already, gpuleak installs no handler. If the application installs one later,
 * it replaces gpuleak's.
 */
#include "interpose/process/signals.h"

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "interpose/base/config.h"
#include "interpose/base/hot.h"
#include "interpose/block/pool_counters.h"
#include "interpose/base/message.h"

_Atomic uint32_t signals_requests, signals_steps;

/* The options that name a signal, and the request that the signal makes. Several options may name
 * the same signal. */
static struct {
	enum option_id option;
	enum signal_request request;
	const char *without; /* what does not happen if the signal can't be used */
	int number;          /* the signal that is caught; 0: none */
} signal_options[] = {
	{ OPTION_POOL_SIGNAL, REQUEST_TRIM, ": the pool returns no memory at this signal\n", 0 },
	{ OPTION_REPORT_SIGNAL, REQUEST_REPORT, ": no report is written at this signal\n", 0 },
	{ OPTION_STEP_SIGNAL, REQUEST_STEP, ": no step is marked at this signal\n", 0 },
};
#define SIGNAL_OPTIONS (sizeof(signal_options) / sizeof(signal_options[0]))

static void note_request(int number)
{
	int saved = errno;
	uint32_t requests = 0;

	for (size_t i = 0; i < SIGNAL_OPTIONS; i++)
		if (signal_options[i].number == number)
			requests |= signal_options[i].request;
	if (requests & REQUEST_TRIM)
		atomic_store_explicit(&pool_wants_trim, true, memory_order_relaxed);
	if (requests & REQUEST_STEP)
		atomic_fetch_add(&signals_steps, 1);
	atomic_fetch_or(&signals_requests, requests);
	syscall(SYS_futex, &signals_requests, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	errno = saved;
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
	char digits[24] = "";
	struct text text = { digits, sizeof(digits) - 1 };

	text_add_number(&text, (uint64_t)number);
	say("gpuleak: GPULEAK_", option_rows[signal_options[i].option].name, ": signal ", digits,
	    " ", why, signal_options[i].without, NULL);
}

static int signal_of_option(enum option_id option)
{
	return option == OPTION_POOL_SIGNAL     ? (int)config.pool_signal
	       : option == OPTION_REPORT_SIGNAL ? (int)config.report_signal
						: (int)config.step_signal;
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
		say_not(i, number, "is not caught, because the application handles or ignores it");
		return;
	}
	signal_options[i].number = number;
	if (before.sa_handler != note_request && sigaction(number, &ours, NULL) < 0) {
		signal_options[i].number = 0;
		say_not(i, number, "cannot be caught");
	}
}

void signals_start(void)
{
	for (size_t i = 0; i < SIGNAL_OPTIONS; i++)
		if (signal_of_option(signal_options[i].option))
			catch(i, signal_of_option(signal_options[i].option));
}

uint32_t signals_caught(void)
{
	uint32_t ret = 0;

	for (size_t i = 0; i < SIGNAL_OPTIONS; i++)
		ret |= signal_options[i].number ? signal_options[i].request : 0;
	return ret;
}
